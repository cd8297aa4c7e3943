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
