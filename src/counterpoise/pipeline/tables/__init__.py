"""The history of a cluster as Delta tables: what was seen, decided and done.

Start at `schema.py`, which says what the tables hold; `history.py` opens and writes them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a task that writes a data file needs no delta-rs
    from counterpoise.pipeline.tables.heartbeat import writing as writing
    from counterpoise.pipeline.tables.journal import JournalWriter as JournalWriter
    from counterpoise.pipeline.tables.ownership import BundleOwners as BundleOwners
    from counterpoise.pipeline.tables.status import read_status as read_status
