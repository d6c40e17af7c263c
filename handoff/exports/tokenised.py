"""Samples as token ids with roles and weights, in windows of a context, for formats that hold tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from handoff.errors import InputError, RecordError
from handoff.exports.exporter import Loss, is_imitated
from handoff.identity import identify
from handoff.masks.roles import mask
from handoff.masks.template import ChatTemplate, load_template
from handoff.masks.tokens import Encode, LossMode, TokenMask, load_decode, load_encode, mask_encoded, message_sizes
from handoff.masks.windows import windows
from handoff.samples import Sample

OVERLAP = 2
"""Replies of the window before that are shown again."""


class Ends(NamedTuple):
    """Tokens around a reply."""

    header: tuple[int, ...]
    """Before it: the generation prompt."""
    ending: int
    """The first one behind it."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens, and how many at once."""

    template: ChatTemplate
    encode: Encode
    name: str
    """Of the tokenizer, for people."""
    decode: Callable[[Sequence[int]], str] | None = None
    """Ids back to text, for people."""
    digest: str = ""
    """Of the tokenizer's and the template's bytes."""
    context: int | None = None
    """Most tokens of one row; longer samples are split. ``None``: nothing is."""

    @property
    def identity(self) -> str:
        """What decides rows of tokens."""
        return f"{self.digest} {self.context}"

    @property
    def ends(self) -> Ends | None:
        """How the template begins and ends a reply; ``None`` where it writes nothing behind one."""
        asked = [{"role": "user", "content": "a"}]
        try:
            plain = self.template.render(asked).text
            begun = self.template.render(asked, add_generation_prompt=True).text
            text = self.template.render([*asked, {"role": "assistant", "content": "ok"}]).text
        except RecordError:
            return None
        ids, offsets = self.encode(text)
        after = text.rindex("ok") + 2 if "ok" in text else len(text)
        behind = [id_ for id_, (start, end) in zip(ids, offsets, strict=True) if start >= after and end > start]
        header = self.encode(begun[len(plain) :])[0] if begun.startswith(plain) else []
        return Ends(tuple(header), behind[0]) if behind and header else None

    @staticmethod
    def of(folder: Path, context: int | None = None) -> Tokens:
        """Those of a folder as tokenizers are published. ``InputError`` where it is none."""
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder; name one that holds tokenizer.json and a chat template")
        template, encode, decode = load_template(folder), load_encode(folder), load_decode(folder)
        bytes_ = (folder / "tokenizer.json").read_bytes()
        digest = identify("i", template.source, repr(sorted(template.special_tokens.items())), bytes_)
        return Tokens(
            template=template, encode=encode, decode=decode, name=folder.resolve().name, digest=digest, context=context
        )


def token_rows(sample: Sample, tokens: Tokens, loss: Loss, losses: Counter[str]) -> Iterator[tuple[Sample, TokenMask]]:
    """A sample that is imitated, or its windows, with the weight of every token.

    A window that bears no loss is left out; so is a sample that the template refuses. Both are counted, as is each
    field that the template does not show.
    """
    if not is_imitated(sample):
        losses[f"{sample.kind}_has_no_token_rows"] += 1
        return
    mode: LossMode = "action_only" if loss.mode == "env_prediction_rows" else loss.mode
    try:
        masked = mask(sample, tokens.template)
        encoded = tokens.encode(masked.text)
        if tokens.context is None or len(encoded[0]) <= tokens.context:
            parts = [(sample, masked, encoded)]
        else:
            sizes = message_sizes(masked, encoded, len(sample.messages))
            cut = windows(sample, sizes, budget=tokens.context, overlap=OVERLAP)
            losses["replies_longer_than_the_context"] += cut.left_out
            masks = [(window, mask(window, tokens.template)) for window in cut.samples]
            parts = [(window, own, tokens.encode(own.text)) for window, own in masks]
    except RecordError as error:
        losses[f"refused: {error.problem}"[:200]] += 1
        return
    for part, own, ids in parts:
        if tokens.context is not None and len(ids[0]) > tokens.context:
            losses["windows_longer_than_the_context"] += 1
            continue
        found = mask_encoded(own, ids, mode=mode, env_weight=loss.env_weight)
        if not found.weights.any():
            losses["windows_without_loss"] += 1
            continue
        for place in own.left_out:
            losses[f"not_shown_by_the_template: {place.partition('.')[2]}"] += 1
        yield part, found
