"""Loaded once by the server that workers are forked from (``pool.py``), so that no worker loads it again.

Importing this does the loading; there is nothing in it to call.
"""

from handoff.kata import policy, record, roster
from handoff.tokens import count_tokens

__all__ = ["policy", "record", "roster"]

count_tokens("The vocabulary is loaded with the first count.")
