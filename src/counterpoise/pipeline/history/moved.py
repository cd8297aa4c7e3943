"""What was moved before, by a history's decisions and outcomes."""

import json

from counterpoise.decide.balancing.approval import PastMove
from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.tables import PART

DECIDED_BEFORE_MS = 600_000
"""A move ends sooner than this after it was decided: decisions of so long before are read, too."""


def moved_since(store: Store, since_ms: int) -> list[PastMove]:
    """Each move that was carried out and ended since; `since_ms` is milliseconds since 1970."""
    after = since_ms - DECIDED_BEFORE_MS
    parts: dict[str, float] = {}
    for table in read_table_parts(store, "decisions", after=after):
        for row in table.select(["id", "figures"]).to_pylist():
            parts[row["id"]] = json.loads(row["figures"]).get(PART, 0.0)
    return [
        PastMove(int(row["ended_at_ms"]), parts.get(row["id"], 0.0))
        for table in read_table_parts(store, "outcomes", after=after)
        for row in table.to_pylist()
        if row["carried_out"] and row["ended_at_ms"] >= since_ms
    ]
