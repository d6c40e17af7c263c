"""What a disturbance costs a successor: paired takeovers (``docs/science.md §10``)."""
