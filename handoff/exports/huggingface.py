"""Hugging Face ``datasets``: the canonical samples themselves, one object a line, with the schema that they follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from handoff.exports.exporter import Exporter, Predecessors, Shards, stem_of
from handoff.samples import Sample, json_schema

_USAGE = """## How to load it

```python
from datasets import Features, Json, List, Value, load_dataset

text, rows = Value("string"), List(Json())
features = Features(
    {"schema_version": text, "sample_id": text, "kind": text, "tools": text, "messages": rows, "chosen": rows,
     "rejected": rows, "spans": rows, "reward": Json(), "diagnosis": Json(), "token_counts": Json(), "origin": Json(),
     "changes": Json()}
)
data = load_dataset("json", data_files={"train": "*-train-*.jsonl"}, features=features)
```

`Json` (datasets 4.8 or newer) keeps every object as it is; inferred structs would fill in nulls. Nothing is left out
of these rows: messages with segments and training flags, character spans with roles and weights, reward, diagnosis
and provenance. `handoff-sample.schema.json` says what each field is.
"""


class HuggingFaceExporter(Exporter):
    """Canonical samples."""

    name = "huggingface"
    title = "Handoff training data, canonical samples"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """The sample."""
        yield stem_of(sample), sample

    def usage(self) -> str:
        """How to load."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """The schema."""
        schema = msgspec.json.format(msgspec.json.encode(json_schema()), indent=2)
        return {"handoff-sample.schema.json": schema.decode() + "\n"}
