"""When bundles were moved before, by a history's outcomes."""

from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.store import Store


def moved_since(store: Store, since_ms: int) -> list[int]:
    """When each move ended that was carried out since; milliseconds since 1970."""
    parts = read_table_parts(store, "outcomes", after=since_ms)
    rows = [row for part in parts for row in part.to_pylist()]
    return [int(row["ended_at_ms"]) for row in rows if row["carried_out"]]
