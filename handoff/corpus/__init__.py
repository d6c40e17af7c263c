"""The corpus: files become tables, and trajectories come back from them.

``reading.py`` fills the tables, streamed: memory does not grow with the size of the files, and a record that
cannot be read goes to ``quarantine`` while the rest is read. On the way there files are cut into portions of records
(``portions.py``), which this and other processes (``crew.py``) turn into columns (``digest.py``); the tables do not
depend on who did. ``rebuild.py`` gives trajectories back exactly, ``columns.py`` holds what both directions share.
What a format means is in ``handoff/adapters/``.
"""

from handoff.corpus.crew import usual_workers
from handoff.corpus.files import files, fingerprint
from handoff.corpus.reading import IngestReport, ingest
from handoff.corpus.rebuild import trajectories
from handoff.corpus.splits import split_of
from handoff.framing import stored_name

__all__ = ["IngestReport", "files", "fingerprint", "ingest", "split_of", "stored_name", "trajectories", "usual_workers"]
