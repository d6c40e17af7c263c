"""The corpus: files become tables, and trajectories come back from them.

``reading.py`` fills the tables, streamed: memory does not grow with the size of the files, and a record that
cannot be read goes to ``quarantine`` while the rest is read. ``rebuild.py`` gives trajectories back exactly,
``columns.py`` holds what both share. What a format means is in ``handoff/adapters/``.
"""

from handoff.corpus.files import files, fingerprint
from handoff.corpus.reading import IngestReport, ingest
from handoff.corpus.rebuild import trajectories
from handoff.corpus.splits import split_of
from handoff.framing import stored_name

__all__ = ["IngestReport", "files", "fingerprint", "ingest", "split_of", "stored_name", "trajectories"]
