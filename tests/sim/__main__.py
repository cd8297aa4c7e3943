"""Many histories: ``python -m tests.sim --histories 100000 --seed 1``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from counterpoise.ownership.protocols import PROTOCOLS
from tests.sim.history import History, Plan
from tests.sim.judges import Barked

CHUNK = 50


def run_many(first: int, count: int, plan: Plan) -> tuple[int, list[tuple[int, str]]]:
    """Run some seeds; returns how many callbacks ran and what barked."""
    steps, barked = 0, []
    for seed in range(first, first + count):
        history = History(seed, plan)
        try:
            history.run()
        except Barked as bark:
            barked.append((seed, str(bark)))
        steps += history.loop.steps
    return steps, barked


def tell(seed: int, plan: Plan) -> int:
    """Run one seed and print its story."""
    history = History(seed, plan)
    try:
        history.run()
    except Barked as bark:
        print(history.story.text())
        print(f"seed {seed}: {bark}")
        return 1
    print(history.story.text())
    print(f"seed {seed}: all judges are silent")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--story", action="store_true", help="tell the history of --seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--manager", choices=list(PROTOCOLS), default=next(iter(PROTOCOLS)))
    options = parser.parse_args()
    plan = replace(Plan(), manager=options.manager)
    if options.story:
        return tell(options.seed, plan)
    began, steps, barked = time.monotonic(), 0, []
    starts = range(options.seed, options.seed + options.histories, CHUNK)
    end = options.seed + options.histories
    with ProcessPoolExecutor(options.processes) as pool:
        work = [pool.submit(run_many, at, min(CHUNK, end - at), plan) for at in starts]
        for each in work:
            more, found = each.result()
            steps += more
            barked += found
            for seed, bark in found:
                print(f"seed {seed}: {bark}", flush=True)
    took = time.monotonic() - began
    print(
        f"{options.histories} histories, {steps} steps, {took:.0f} s: {len(barked)} barked"
        + (f"; python -m tests.sim --story --seed {barked[0][0]} tells the first" if barked else "")
    )
    return 1 if barked else 0


if __name__ == "__main__":
    sys.exit(main())
