"""Samples of bundles and measurements of brokers, to be averaged."""

from random import Random
from typing import Any

from tests.conformance.generators.settings import settings
from tests.conformance.generators.splitting import bundle_data, bundle_stats
from tests.conformance.generators.values import MODES, Names, Numbers


def load_case(rng: Random) -> dict[str, Any]:
    """A bundle's samples, a broker's bundles with averages, and a broker's measurements."""
    mode = rng.choice(MODES)
    numbers = Numbers(rng, mode)
    names = Names(rng)
    bundles = sorted({names.bundle() for _ in range(rng.randint(0, 6))})
    known = {name: bundle_data(rng, numbers) for name in bundles if rng.random() < 0.7}
    reports = []
    for _ in range(rng.randint(1, 5)):
        present = [name for name in bundles if rng.random() < 0.7]
        usage = {
            resource: numbers.usage()
            for resource in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
        }
        reports.append(
            {
                "usage": usage,
                "stats": {name: bundle_stats(rng, numbers) for name in present},
                "written": rng.random() < 0.4,
            }
        )
    return {
        "op": "load",
        "mode": mode,
        "samples": [bundle_stats(rng, numbers) for _ in range(rng.choice((1, 3, 12)))],
        "maxSamples": rng.randint(1, 5),
        "known": known,
        "owned": bundles,
        "reports": reports,
        "conf": settings(rng, "load"),
    }


def change_case(rng: Random) -> dict[str, Any]:
    """A report as it was written and as it would be now, most of it changed a little."""
    mode = rng.choice(MODES)
    numbers = Numbers(rng, mode)
    resources = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    written: dict[str, Any] = {name: numbers.usage() for name in resources}
    for field in ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut"):
        written[field] = numbers.amount(1000.0)
    written["numBundles"] = rng.choice((0, 1, 10, 100))
    now = dict(written)
    for field, value in written.items():
        factor = rng.choice((0.9, 1.1, 0.95, 1.05, rng.uniform(0.85, 1.15)))
        if rng.random() < 0.3 and field != "numBundles":
            usage = isinstance(value, dict)
            now[field] = {**value, "usage": value["usage"] * factor} if usage else value * factor
    if rng.random() < 0.2:
        now["numBundles"] += rng.choice((1, -1, 5)) if written["numBundles"] else 1
    return {
        "op": "report-change",
        "mode": mode,
        "written": written,
        "now": now,
        "age": rng.choice((0, 0, 1000, 14 * 60_000, 16 * 60_000)),
        "conf": settings(rng, "report-change"),
    }


def topk_case(rng: Random) -> dict[str, Any]:
    """A broker's bundles, many of which rank alike."""
    mode = rng.choice(MODES)
    numbers = Numbers(rng, mode)
    names = Names(rng)
    count = rng.choice((0, 1, 2, 5, 12, 12, 40, 200))
    drawn = (names.bundle() for _ in range(count))
    table = {name: bundle_stats(rng, numbers) for name in drawn if 2 <= name.count("/") <= 3}
    for name, each in table.items():
        if rng.random() < 0.3:
            table[name] = {**each, "msgThroughputIn": 0.0, "msgThroughputOut": 0.0}
        elif rng.random() < 0.3:
            table[name] = dict(rng.choice(list(table.values())))
    data = {f"t/n/{i}": bundle_data(rng, numbers) for i in range(6)}
    namespaces = sorted({name.rpartition("/")[0] for name in table})
    allowed = rng.random() < 0.5
    return {
        "op": "topk",
        "mode": mode,
        "stats": table,
        "most": rng.choice((1, 2, 10, 10, 50)),
        "withPolicies": [ns for ns in namespaces if rng.random() < 0.2],
        "conf": {"loadBalancerSheddingBundlesWithPoliciesEnabled": allowed},
        "data": data,
        "pairs": _pairs(rng, list(table)),
        "dataPairs": _pairs(rng, list(data)),
    }


def _pairs(rng: Random, names: list[str]) -> list[list[str]]:
    return [[rng.choice(names), rng.choice(names)] for _ in range(20)] if names else []
