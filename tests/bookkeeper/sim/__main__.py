"""Many histories of a ledger: ``python -m tests.bookkeeper.sim --histories 100000 --seed 1``."""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.bookkeeper.sim.history import LedgerHistory
from tests.bookkeeper.sim.world import Violation

CHUNK = 500


def run_many(first: int, count: int) -> tuple[int, int, list[tuple[int, str]]]:
    """Run some seeds; gives events, acknowledged entries, and what was violated in which seed."""
    steps, acknowledged, violations = 0, 0, []
    for seed in range(first, first + count):
        history = LedgerHistory(seed)
        try:
            history.run()
        except Violation as violation:
            violations.append((seed, str(violation)))
        steps += history.clock.steps
        acknowledged += history.writer.acknowledged + 1
    return steps, acknowledged, violations


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bookkeeper.sim", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--story", action="store_true", help="show the history of --seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.story:
        history = LedgerHistory(options.seed)
        try:
            history.run()
            verdict = "no invariant is violated"
        except Violation as violation:
            verdict = str(violation)
        print("\n".join(history.clock.story))
        print(verdict)
        return 0
    began, end = time.monotonic(), options.seed + options.histories
    steps = acknowledged = violated = 0
    with ProcessPoolExecutor(options.processes) as pool:
        starts = range(options.seed, end, CHUNK)
        work = [pool.submit(run_many, at, min(CHUNK, end - at)) for at in starts]
        for each in work:
            more, entries, found = each.result()
            steps += more
            acknowledged += entries
            violated += len(found)
            for seed, violation in found[:3]:
                print(f"seed {seed}: {violation}", flush=True)
                print(f"  python -m tests.bookkeeper.sim --seed {seed} --story shows it")
    took = time.monotonic() - began
    print(
        f"ledgers, seeds from {options.seed}: {options.histories} histories, {steps} steps, "
        f"{acknowledged} entries acknowledged, {took:.0f} s: {violated} violated",
        flush=True,
    )
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
