"""Ledgers, entries, managed ledgers and cursors, for Java to write down."""

from random import Random
from typing import Any

from tests.conformance.suite import Case

COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


def bookkeeper_case(rng: Random) -> Case:
    return {
        "op": "bookkeeper",
        "mode": "",
        "ledger": _ledger(rng),
        "entries": [_entry(rng, entry) for entry in range(3)],
        "reads": [rng.randrange(1000) for _ in range(8)],
        "managed": _managed(rng),
        "cursor": _cursor(rng),
    }


def _ledger(rng: Random) -> dict[str, Any]:
    ensemble = rng.randint(1, 5)
    write = rng.randint(1, ensemble)
    firsts = [0, *sorted(rng.sample(range(1, 900), rng.randrange(4)))]
    names = [f"bookie-{number}:3181" for number in range(9)]
    return {
        "id": rng.choice(
            (0, 1, rng.randrange(2**31 - 1), 2**31 - 2, 2**31 - 1, rng.randrange(2**63))
        ),
        "format": rng.choice((2, 3)),
        "ensemble": ensemble,
        "write": write,
        "ack": rng.randint(1, write),
        "digest": rng.choice(("CRC32", "MAC", "CRC32C", "DUMMY")),
        "password": rng.choice(("", "", "secret", "é")),
        "segments": [[first, rng.sample(names, ensemble)] for first in firsts],
        "state": rng.choice(("OPEN", "IN_RECOVERY", "CLOSED")),
        "last": firsts[-1] + rng.randrange(100),
        "length": rng.randrange(2**40),
        "token": rng.randrange(1, 2**63),
        "created": rng.randrange(1, 2**41),
        "custom": {f"key {n}": rng.choice(("", "pulsar", "é")) for n in range(rng.randrange(4))},
    }


def _entry(rng: Random, entry: int) -> dict[str, Any]:
    payload = rng.randbytes(rng.choice((0, 1, 5, 100, 3000)))
    return {
        "entry": entry,
        "confirmed": rng.randint(-1, entry - 1),
        "length": rng.randrange(2**50),
        "payload": payload.hex(),
        "recovery": rng.random() < 0.5,
    }


def _managed(rng: Random) -> dict[str, Any]:
    return {
        "compression": rng.choice(COMPRESSIONS),
        "ledgers": [
            [
                rng.randrange(2**63),
                rng.randrange(50_000),
                rng.randrange(2**40),
                rng.randrange(2**41),
                rng.random() < 0.2,
                rng.random() < 0.2,
            ]
            for _ in range(rng.randrange(30))
        ],
        "terminated": rng.choice((None, [rng.randrange(2**40), rng.randrange(1000)])),
        "properties": {"owner": "é"} if rng.random() < 0.5 else {},
    }


def _cursor(rng: Random) -> dict[str, Any]:
    cuts = sorted(rng.sample(range(400), 2 * rng.randrange(6)))
    return {
        "compression": rng.choice(COMPRESSIONS),
        "ledger": rng.choice((-1, rng.randrange(2**40))),
        "mark": [rng.randrange(2**40), rng.randint(-1, 1000)],
        "ranges": [list(pair) for pair in zip(cuts[::2], cuts[1::2], strict=True)],
        "in": rng.randrange(2**40),
        "numbers": {
            f"producer {n}": rng.randrange(-(2**63), 2**63) for n in range(rng.randrange(3))
        },
        "texts": {f"key {n}": "é" for n in range(rng.randrange(3))},
    }
