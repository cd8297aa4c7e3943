"""Checks that an object store honours conditional writes.

Delta's commits depend on them: in a store that ignores the condition, the second of two commits of
one version replaces the first, and no writer notices.
"""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from counterpoise.pipeline.tables.delta_table import trouble
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import names_below
from counterpoise.pipeline.tables.schema import REPORTS

RIVALS = 6
"""How many commits of the same version are tried at the same time.

delta-rs first looks whether the version exists, so only writes that overlap test the store."""
_SCHEMA = pa.schema({"probe": pa.string()})


def expect_conditional_writes(location: Location) -> None:
    """Try concurrent commits in a store without a history; raises `HistoryFaultError` if two
    succeed.

    Skipped on a local file system, where no name can be created twice.
    """
    if location.local is not None or names_below(location, f"{REPORTS}/_delta_log"):
        return
    name = f"probe-{uuid.uuid4().hex}"
    options = location.storage_options
    with trouble(location, name):
        uri = location.table_uri(name)
        DeltaTable.create(uri, _SCHEMA, storage_options=options)
        try:
            rivals = [DeltaTable(uri, storage_options=options) for _ in range(RIVALS)]
            at_once = threading.Barrier(RIVALS)
            with ThreadPoolExecutor(RIVALS) as threads:
                done = threads.map(lambda rival: _is_committed(rival, at_once), rivals)
                committed = sum(done)
        finally:
            location.filesystem.delete_dir(location.path(name))
    if committed == 1:
        return
    raise HistoryFaultError(
        f"{location.address}: this store replaces an object that it was asked to write only where "
        "there is none (If-None-Match), so commits would be lost: use a store that honours it, as "
        "S3, GCS, Azure and MinIO do, or name another --history"
    )


def _is_committed(handle: DeltaTable, at_once: threading.Barrier) -> bool:
    """Commit at the same time as the rivals; return whether the store accepted the commit."""
    at_once.wait()
    try:
        handle.create_write_transaction(
            [],
            "append",
            handle.schema(),
            commit_properties=CommitProperties(
                max_commit_retries=0, app_transactions=[Transaction(uuid.uuid4().hex, 1)]
            ),
        )
    except CommitFailedError:
        return False
    return True
