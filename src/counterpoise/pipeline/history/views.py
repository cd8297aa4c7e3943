"""What people ask a history for, worked out from its tables: loads and gaps."""

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.load.rows import BROKER, BUNDLE, GAP, RATES, USAGE
from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.names import TABLES
from counterpoise.pipeline.history.ownership import SCHEMA as CHANGES
from counterpoise.pipeline.history.ownership import TABLE as OWNERSHIP
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.tables import SCHEMAS
from counterpoise.pipeline.tables.rows_codec import REPORTS_SCHEMA

BUNDLE_LOADS = ("at", "report_at", "broker", "bundle", *RATES, "topics", "producers", "consumers")
BROKER_LOADS = (
    *("at", "report_at", "age_ms", "fresh", "broker", *RATES, "topics", "bundles"),
    *("producers", "consumers", *USAGE, "load_manager", "broker_version"),
)
GAPS = ("at", "broker", "note")
VIEWS: Mapping[str, str] = {
    "bundle-loads": "what each bundle carried, a row for each measurement",
    "broker-loads": "what each broker carried and used, a row for each poll",
    "gaps": "brokers that could not be read, and why",
}
NAMES = (*TABLES, *VIEWS)
_SCHEMAS: Mapping[str, pa.Schema] = {"reports": REPORTS_SCHEMA, OWNERSHIP: CHANGES, **SCHEMAS}


def parts(store: Store, name: str, *, first_ms: int, last_ms: int) -> Iterator[pa.Table]:
    """The rows of a table or view between two times, oldest first, a file at a time.

    At least one part, so that whoever writes them down has columns where there are no rows.
    """
    table = "reports" if name in VIEWS else name
    made: Callable[[pa.Table], pa.Table] = _view(name)
    nothing = True
    for part in read_table_parts(store, table, after=first_ms - 1):
        polls = part.column("poll_id")
        chosen = pc.and_(pc.greater_equal(polls, first_ms), pc.less_equal(polls, last_ms))
        yield made(part.filter(chosen))
        nothing = False
    if nothing:
        yield made(_SCHEMAS[table].empty_table())


def _view(name: str) -> Callable[[pa.Table], pa.Table]:
    kinds = {
        "bundle-loads": (BUNDLE, BUNDLE_LOADS),
        "broker-loads": (BROKER, BROKER_LOADS),
        "gaps": (GAP, GAPS),
    }
    if name not in kinds:
        return lambda part: part
    kind, columns = kinds[name]
    return lambda part: part.filter(pc.equal(part.column("kind"), kind)).select(list(columns))
