"""Crowds of consumers, beside real Apache Pulsar in one run: a thousand subscriptions of one topic,
and a hundred consumers that have everything sent again. Measured as `bench/delivery.py` does.
"""

from pathlib import Path

from bench.delivery import Mode, measured
from bench.figures import Figure

MODES = (
    Mode("1,000 subscriptions", "exclusive", "cumulative", 500, 1, 1_000),
    Mode(
        "shared, 100 consumers, redelivered", "shared", "individual", 50_000, 100, redelivered=True
    ),
)


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    return measured(MODES, quick=quick)
