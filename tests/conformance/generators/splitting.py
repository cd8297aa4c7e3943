"""Bundles to cut, and loads that may or may not call for a split."""

from functools import cache
from random import Random
from typing import Any
from zlib import crc32

from tests.conformance.generators.load_data import NOW
from tests.conformance.generators.settings import settings
from tests.conformance.generators.values import MODES, Names, Numbers

ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
FULL = 2**32 - 1


@cache
def near_twins() -> tuple[tuple[str, str], ...]:
    """Pairs of topics whose hashes are equal or neighbours: where boundaries get difficult."""
    by_hash: dict[int, str] = {}
    pairs: list[tuple[str, str]] = []
    rng = Random(7)
    for _ in range(300_000):  # long random names: CRC-32 keeps short ones apart
        name = f"persistent://t/ns/topic-{rng.getrandbits(64):016x}"
        point = crc32(name.encode())
        near = (by_hash.get(point + step) for step in (-1, 0, 1))
        pairs += [(other, name) for other in near if other is not None]
        by_hash[point] = name
    return tuple(pairs)


def algorithm_case(rng: Random) -> dict[str, Any]:
    """One bundle with its topics, for one of the four algorithms."""
    mode = rng.choice(MODES)
    numbers = Numbers(rng, mode)
    low, high = _range(rng)
    topics: dict[str, Any] = {}
    rate, throughput = 10 ** rng.uniform(1, 4), 10 ** rng.uniform(4, 8)
    names = [f"persistent://t/ns/x-{rng.randrange(10**6)}" for _ in range(_count(rng))]
    if rng.random() < 0.4:
        for pair in rng.sample(near_twins(), rng.randint(1, 3)):
            names += pair
    for name in names:
        low, high = (0, FULL) if not low <= crc32(name.encode()) < high else (low, high)
        topics[name] = _topic(rng, numbers, rate, throughput)
    positions = None
    if rng.random() < 0.7:
        positions = [
            rng.choice((rng.randrange(2**32), low, high, rng.randint(low, high)))
            for _ in range(rng.randrange(5))
        ]
        positions += positions[:1] if rng.random() < 0.2 else []
    return {
        "op": "split-algorithm",
        "mode": mode,
        "algorithm": rng.choice(ALGORITHMS),
        "bundle": f"t/ns/0x{low:08x}_0x{high:08x}",
        "topics": topics,
        "boundaries": positions,
        "conf": settings(rng, "split"),
    }


def modular_case(rng: Random) -> dict[str, Any]:
    """Reports of several brokers, some bundles above a limit, some namespaces nearly full."""
    mode = rng.choice(MODES)
    numbers = Numbers(rng, mode)
    names = Names(rng)
    brokers, data = {}, {}
    for index in range(rng.randint(0, 6)):
        stats = {names.bundle(): bundle_stats(rng, numbers) for _ in range(rng.randint(0, 8))}
        stats = {name: each for name, each in stats.items() if 2 <= name.count("/") <= 3}
        brokers[f"b{index}:8080"] = {"localData": {"lastStats": stats, "bundles": list(stats)}}
        for bundle in stats:
            if rng.random() < 0.8:
                data[bundle] = bundle_data(rng, numbers)
    namespaces = {
        bundle.rpartition("/")[0] for b in brokers.values() for bundle in b["localData"]["bundles"]
    }
    return {
        "op": "split-modular",
        "mode": mode,
        "conf": settings(rng, "split"),
        "counts": {ns: rng.choice((1, 4, 126, 127, 128, 3)) for ns in sorted(namespaces)},
        "loadData": {"now": NOW, "brokerData": brokers, "bundleData": data},
    }


def extensible_case(rng: Random) -> dict[str, Any]:
    """Several checks of one broker's own bundles, hits building up."""
    mode = rng.choice(MODES)
    numbers = Numbers(rng, mode)
    bundles = [_bundle(rng) for _ in range(rng.randint(0, 7))]
    namespaces = sorted({bundle.rpartition("/")[0] for bundle in bundles})
    counts = {ns: rng.choice((1, 4, 126, 127, 128)) for ns in namespaces}
    calm = rng.random() < 0.3
    stats = {bundle: bundle_stats(rng, numbers) for bundle in bundles}
    lines = []
    for _ in range(rng.choice((1, 4, 5, 6, 9))):
        for bundle in bundles:
            if rng.random() < (0.5 if calm else 0.1):
                stats[bundle] = bundle_stats(rng, numbers)
        present = {b: s for b, s in stats.items() if rng.random() < 0.97}
        splitting = [b for b in bundles if rng.random() < 0.03]
        if rng.random() < 0.1:
            splitting.append(f"t/ns2/{_bundle(rng).rpartition('/')[2]}")
        lines.append(
            {
                "stats": present,
                "owned": [b for b in bundles if rng.random() < 0.97],
                "splitting": splitting,
                "counts": counts,
                "topics": {b: _topics(rng, numbers, b) for b in bundles},
            }
        )
    return {"op": "split-extensible", "mode": mode, "conf": settings(rng, "split"), "lines": lines}


def _range(rng: Random) -> tuple[int, int]:
    low = rng.choice((0, 0, rng.randrange(2**32 - 10)))
    return low, rng.choice((FULL, rng.randint(low + 1, FULL), low + 1, low + 2))


def _count(rng: Random) -> int:
    return rng.choice((0, 1, 2, 3, 4, 7, 20, rng.randrange(200)))


def _bundle(rng: Random) -> str:
    low, high = _range(rng)
    if rng.random() < 0.6:
        edges = [rng.randrange(17) * 0x10000000 for _ in range(2)]
        low, high = min(edges), max(edges)
        low, high = (low, min(high, FULL)) if low < high else (0, FULL)
    return f"{rng.choice(('t/ns', 't/ns2', 't/other'))}/0x{low:08x}_0x{high:08x}"


def _topic(rng: Random, numbers: Numbers, rate: float, throughput: float) -> Any:
    if rng.random() < 0.1:
        return None
    idle = rng.random() < 0.1
    return {
        "msgRateIn": 0.0 if idle else numbers.amount(rate),
        "msgRateOut": 0.0 if idle else numbers.amount(rate),
        "msgThroughputIn": 0.0 if idle else numbers.amount(throughput),
        "msgThroughputOut": 0.0 if idle else numbers.amount(throughput),
    }


def _topics(rng: Random, numbers: Numbers, bundle: str) -> dict[str, Any]:
    """Topics of a bundle: a cut outside it would end in an exception in Pulsar."""
    low, high = (int(bound, 16) for bound in bundle.rpartition("/")[2].split("_"))
    names = (f"persistent://t/ns/x-{rng.randrange(10**6)}" for _ in range(rng.choice((0, 4, 20))))
    return {
        name: _topic(rng, numbers, 3000.0, 1e7)
        for name in names
        if low < crc32(name.encode()) < high
    }


def bundle_stats(rng: Random, numbers: Numbers) -> dict[str, Any]:
    busy = rng.random() < 0.5
    return {
        "msgRateIn": numbers.amount(8000.0 if busy else 10.0),
        "msgRateOut": numbers.amount(8000.0 if busy else 10.0),
        "msgThroughputIn": numbers.amount(3e7 if busy else 1e3),
        "msgThroughputOut": numbers.amount(3e7 if busy else 1e3),
        "consumerCount": rng.choice((0, 10, 500, 1000, 1001, rng.randrange(2000))),
        "producerCount": rng.choice((0, 1, 10, 500)),
        "topics": rng.choice((0, 1, 2, 3, 100, 1000, 1001, 1500)),
        "cacheSize": 0,
    }


def bundle_data(rng: Random, numbers: Numbers) -> dict[str, Any]:
    made = {}
    for name, samples in (("shortTermData", 10), ("longTermData", 1000)):
        stats = bundle_stats(rng, numbers)
        made[name] = {
            field: stats[field]
            for field in ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
        } | {"maxSamples": samples, "numSamples": rng.randint(0, samples)}
    return {**made, "topics": rng.randrange(100)}
