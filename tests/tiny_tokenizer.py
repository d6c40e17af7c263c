"""A small tokenizer with a chat template, made on the spot: nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import tokenizers

MARKED = """{%- if tools %}{{ '<|im_start|>system\\n# Tools' }}
{%- for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}{% generation %}
{%- if message.reasoning_content %}{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
{{- '\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}
{%- else %}{{ message.content + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def build(folder: Path, texts: Iterable[str], size: int = 600) -> Path:
    """``tokenizer.json`` and ``chat_template.jinja``: bytes, and what occurs often in ``texts``."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    bpe.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(MARKED)
    return folder
