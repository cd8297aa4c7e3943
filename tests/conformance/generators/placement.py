"""Sequences of placement requests: a bundle, its candidates, the load data of that moment."""

from random import Random
from typing import Any

from tests.conformance.generators.load_data import NOW, LoadDataWorld
from tests.conformance.generators.settings import settings
from tests.conformance.generators.transfer import transfer_case
from tests.conformance.generators.values import MODES, Numbers


def modular_case(rng: Random, strategy: str) -> dict[str, Any]:
    """One strategy instance's life under the modular manager."""
    mode = rng.choice(MODES)
    world = LoadDataWorld(rng, Numbers(rng, mode), placement=True)
    requests = []
    for step in range(rng.choice((1, 1, 2, 3, 6, 10))):
        if step and rng.random() < 0.8:
            world.step()
        line = world.line(NOW + 10_000 * step)
        brokers = list(line["brokerData"])
        known = sorted(line["bundleData"])
        requests.append(
            {
                "bundle": rng.choice(known) if known and rng.random() < 0.7 else "t/new/0x0_0x1",
                "candidates": _some(rng, brokers),
                "loadData": line,
            }
        )
    case = {"op": "place", "strategy": strategy, "mode": mode, "requests": requests}
    return {**case, "conf": settings(rng, f"place/{strategy}")}


def extensible_case(rng: Random) -> dict[str, Any]:
    """Requests to the extensible manager's strategy, brokers without load data among them."""
    source = transfer_case(rng)
    requests = []
    for line in source["lines"]:
        brokers = list(line["brokers"])
        candidates = _some(rng, brokers)
        if rng.random() < 0.2:
            candidates.append("unknown:8080")
        if rng.random() < 0.2 and brokers:
            line["brokers"][rng.choice(brokers)]["brokerLoadData"] = None
        requests.append({"bundle": "t/n/0x0_0x1", "candidates": candidates, "loadData": line})
    return {
        "op": "place-extensible",
        "strategy": "LeastResourceUsageWithWeight",
        "mode": source["mode"],
        "requests": requests,
        "conf": settings(rng, "place/LeastResourceUsageWithWeight"),
    }


def _some(rng: Random, brokers: list[str]) -> list[str]:
    """All, most or few of the brokers, in any order."""
    roll = rng.random()
    if roll < 0.05:
        return []
    count = len(brokers) if roll < 0.6 else rng.randint(0, len(brokers))
    return rng.sample(brokers, count)
