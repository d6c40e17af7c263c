"""Model endpoints: any server that speaks OpenAI's Chat Completions.

::

    settings.py   what a user says about one: address, model, sampling, prices, limits
    wire.py       a request and an answer as values
    failures.py   what a failed attempt means
    schemas.py    ways of binding an answer to a schema
    sdk.py        one attempt, over the openai SDK: the only module here that reaches the network
    client.py     attempts until there is an answer; limits of traffic
    ledger.py     every answer written down before it is used
    gateway.py    the door to one in an agent's jail
    served.py     what that agent may ask, and how an answer is worded for it

Who asks what is elsewhere: ``successors/openai.py``, ``successors/broker.py``, ``writers/``.
"""

from __future__ import annotations

from handoff.endpoints.client import Client
from handoff.endpoints.ledger import Ledger, Spent
from handoff.endpoints.sdk import Lost, Received, SdkTransport, Transport
from handoff.endpoints.settings import Endpoint, Prices
from handoff.endpoints.wire import Answer, Completion, Declined, ToolCall

__all__ = [
    "Answer",
    "Client",
    "Completion",
    "Declined",
    "Endpoint",
    "Ledger",
    "Lost",
    "Prices",
    "Received",
    "SdkTransport",
    "Spent",
    "ToolCall",
    "Transport",
]
