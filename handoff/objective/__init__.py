"""The objective (``docs/science.md §11``) for those who train: L_GRPO + λ1·L_env + λ2·L_reconstruction, on PyTorch.

::

    losses.py   the three terms and their sum, as functions of log-probabilities and masks
    reweigh.py  weights of samples by how well they agree with a few held-out real ones
    trainer.py  TRL's GRPO trainer with the two further terms

It needs the extra ``train``; nothing else of this package does, and nothing else imports it.
"""
