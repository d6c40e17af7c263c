"""Which token of a conversation bears which loss, for any chat template, on a CPU and without torch.

::

    chat.py      a sample's messages as chat templates read them
    template.py  a chat template: conversations to text, with what it marks as generated
    roles.py     the rendered text, cut into pieces that have one role and one weight (``docs/science.md §11``)
    tokens.py    a tokenizer's ids with the role and weight of each
    windows.py   long conversations in pieces of a context budget, each token trained once

A conversation is rendered once and tokenised once, whatever its length: where a field of a message ends up is seen
from marks that are put into it, not from rendering every prefix.
"""
