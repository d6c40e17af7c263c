"""Finding the records in what people have: files, compressed files, archives, folders of events.

``source.py`` reads a file as a stream of records, ``arrays.py`` long arrays, ``containers.py`` what wraps files,
``sessions.py`` says which lines belong together, ``record.py`` is one record, ``losses.py`` the account of what was
not read of it. What a record means is in ``handoff/adapters/``.
"""

from handoff.framing.record import Record
from handoff.framing.source import RECORD_LIMIT, Damaged, SourceFile, label, stored_name

__all__ = ["RECORD_LIMIT", "Damaged", "Record", "SourceFile", "label", "stored_name"]
