"""Opens one Delta table, and turns delta-rs's errors into faults of the history."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    TableNotFoundError,
)

from counterpoise.pipeline.tables.faults import (
    HistoryFaultError,
    brief,
    damaged,
    is_out_of_reach,
    unreadable,
    unwritable,
)
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.schema import (
    DAY,
    FOLD_STATE,
    LAYOUT,
    LAYOUT_KEY,
    SCHEMAS,
    statistics_of,
)

CHECKPOINT_EVERY = 100
"""The number of commits between two checkpoints; a reader reads the newest checkpoint instead of
all commits before it."""
LOG_KEPT = "delta.logRetentionDuration"
"""The table property that says how long former versions can be read."""
FILES_KEPT = "delta.deletedFileRetentionDuration"
"""The table property that says how long a data file stays after a commit dropped it."""
STATES_KEPT = "interval 1 hours"
"""The value of `LOG_KEPT` for the fold's states, which are removed once there are newer ones."""


TIME_TRAVEL_DAYS = 1
"""The default of `--time-travel-days`."""


def days_kept(days: int) -> str:
    """A number of days as a Delta table property states it: `interval 7 days`."""
    return f"interval {days} days"


def open_table(location: Location, table: str) -> DeltaTable:
    """Open a table; raises `TableNotFoundError`, and delta-rs's errors."""
    return DeltaTable(location.table_uri(table), storage_options=location.storage_options)


def find_table(location: Location, table: str) -> DeltaTable | None:
    """Open a table; None if there is none. Raises `HistoryFaultError`."""
    with trouble(location, table):
        try:
            return open_table(location, table)
        except TableNotFoundError:
            return None


def create_table(
    location: Location,
    table: str,
    schema: Schema,
    configuration: Mapping[str, str] | None = None,
    description: str | None = None,
) -> DeltaTable:
    """Create a table partitioned by day; opens it if another process creates it at the same time.

    Raises `HistoryFaultError`.
    """
    with trouble(location, table):
        try:
            return DeltaTable.create(
                location.table_uri(table),
                schema,
                partition_by=[DAY],
                name=table,
                description=description,
                configuration=configuration,
                storage_options=location.storage_options,
                raise_if_key_not_exists=False,
            )
        except DeltaError:
            return open_table(location, table)


def configuration_of(table: str) -> dict[str, str]:
    """The table properties that a history's table is created with."""
    return {
        LAYOUT_KEY: str(LAYOUT),
        "delta.checkpointInterval": str(CHECKPOINT_EVERY),
        "delta.dataSkippingStatsColumns": ",".join(statistics_of(table)),
        LOG_KEPT: STATES_KEPT if table == FOLD_STATE else days_kept(TIME_TRAVEL_DAYS),
        FILES_KEPT: days_kept(TIME_TRAVEL_DAYS),
    }


@cache
def schema_of(table: str) -> Schema:
    """A table's schema as delta-rs takes it for a commit."""
    return Schema.from_arrow(SCHEMAS[table].append(pa.field(DAY, pa.string())))


def later_layout(handle: DeltaTable) -> int:
    """The table's layout version if it is newer than this program knows, otherwise 0."""
    version = int(handle.metadata().configuration.get(LAYOUT_KEY, LAYOUT))
    return version if version > LAYOUT else 0


@contextmanager
def trouble(location: Location, table: str) -> Iterator[None]:
    """In the block, turn delta-rs's errors into `HistoryFaultError`s that name the table."""
    try:
        yield
    except HistoryFaultError:
        raise
    except DeltaProtocolError as error:
        raise HistoryFaultError(
            f"{location.where(table)} was written by a newer engine ({brief(error)}): run a "
            "newer counterpoise, or name another --history"
        ) from error
    except (pa.ArrowException, OSError, DeltaError, ValueError) as error:
        raise _fault(location, table, error) from error


def _fault(location: Location, table: str, error: Exception) -> HistoryFaultError:
    if isinstance(error, CommitFailedError | PermissionError):
        return unwritable(location.where(table), error)
    if is_out_of_reach(error):
        return unreadable(location.where(table), error)
    if isinstance(error, OSError):
        return unwritable(location.where(table), error)
    return damaged(location.where(f"{table}/_delta_log"), location.address, error)
