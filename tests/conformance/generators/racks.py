"""Bookies in racks, some of them excluded; a ledger to place, and one whose bookie failed."""

from random import Random
from typing import Any

RACKS = ["/a", "/b", "/c", "/d", ""]
"""A blank one: Pulsar's map does not name the bookie."""


def racks_case(rng: Random) -> dict[str, Any]:
    count = rng.randint(2, 9)
    few = rng.sample(RACKS, rng.randint(1, len(RACKS)))
    racks = {f"10.0.0.{number}:3181": rng.choice(few) for number in range(1, count + 1)}
    bookies = list(racks)
    ensemble = rng.randint(1, min(count, 5))
    write = rng.randint(1, ensemble)
    excluded = rng.sample(bookies, rng.choice((0, 0, 1, rng.randrange(count))))
    return {
        "op": "racks",
        "racks": racks,
        "excluded": excluded,
        "ensemble": ensemble,
        "write": write,
        "ack": rng.randint(1, write),
        "racks_min": rng.randint(1, 3),
        "enforced": rng.random() < 0.5,
        "written": rng.sample(bookies, ensemble),
        "failed": rng.randrange(ensemble),
    }
