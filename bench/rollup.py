"""How long a history takes to be rolled up: days by one job for each gold table, and day by day.

Polls each ten minutes of a small cluster: what is measured is what each job costs by itself.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.pipeline.gold.recorded import START, history

from bench.figures import Figure
from counterpoise.pipeline.gold.rollup import SETTINGS, days_to_roll_up, roll_up
from counterpoise.pipeline.stream.session import start_session, stop_spark
from counterpoise.pipeline.tables.location import open_location


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    days = 1 if quick else 7
    took: dict[int, float] = {}
    spark = start_session("local[2]", partitions=2, conf=SETTINGS)
    try:
        # The first is a warm-up: it starts Python processes, and plans each query for the JVM.
        for at_once in (1,) if quick else (days, days, 1):
            with TemporaryDirectory(prefix="counterpoise-bench-") as home:
                location = open_location(history(Path(home), days))
                began = time.perf_counter()
                list(roll_up(spark, location, days_to_roll_up(location), START, at_once))
                took[at_once] = time.perf_counter() - began
            print(f"   {days} days, {at_once} at once: {took[at_once]:.1f} s", flush=True)
    finally:
        stop_spark(spark)
    return [
        Figure(
            f"{days} days are rolled up",
            took[days],
            "s",
            anchor="a day at a time",
            anchor_value=took[1],
            note="12 gold tables, local[2]",
        )
    ]
