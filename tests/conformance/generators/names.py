"""Names, good and bad, and rings of bundles to cut."""

from random import Random
from typing import Any

from tests.conformance.generators.splitting import FULL

_LOCAL = (
    "topic",
    "a",
    "x-partition-3",
    "x-partition-03",
    "p-partition--1",
    "é",
    "a b",
    "a%2Fb",
    "~*",
)
_PARTS = ("public", "default", "t", "ns-1", "n=a:b.c", "", "bad space", "pulsar", "a/b", "tenant_1")


def names_case(rng: Random) -> dict[str, Any]:
    """Some names to parse, keys to hash, and a namespace with topics and a cut."""
    boundaries = None
    if rng.random() < 0.5:
        inner = {rng.randrange(1, FULL) for _ in range(rng.randrange(12))}
        boundaries = [f"0x{point:08x}" for point in sorted({0, FULL, *inner})]
    positions = None
    if rng.random() < 0.5:
        positions = [rng.randrange(2**32) for _ in range(rng.randrange(1, 4))]
    return {
        "op": "names",
        "mode": "",
        "names": [_name(rng) for _ in range(6)],
        "keys": [_text(rng) for _ in range(4)],
        "namespace": "t/ns",
        "count": rng.choice((1, 2, 3, 4, 7, 16, 100, rng.randint(1, 500))),
        "boundaries": boundaries,
        "topics": [f"persistent://t/ns/{_text(rng)}{i}" for i in range(10)],
        "target": rng.randrange(100),
        "parts": rng.choice((2, 2, 3, 5, 1000)),
        "positions": positions,
    }


def _text(rng: Random) -> str:
    alphabet = "abcXYZ019-_.éß漢 %"  # never blank: no partition of a topic without a name
    return "x" + "".join(rng.choice(alphabet) for _ in range(rng.randrange(24)))


def _name(rng: Random) -> str:
    local = rng.choice((*_LOCAL, _text(rng), f"{_text(rng)}-partition-{rng.randrange(12)}"))
    roll = rng.random()
    if roll < 0.15:
        return local
    path = f"{rng.choice(_PARTS)}/{rng.choice(_PARTS)}/{local}"
    if roll < 0.4:
        return path
    domain = rng.choice(("persistent", "persistent", "non-persistent", "Persistent", "", "http"))
    return f"{domain}://{path}"
