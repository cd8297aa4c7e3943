"""Many histories: ``python -m tests.sim --histories 100000 --seed 1``."""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.sim.history import PLANS, History, Plan
from tests.sim.judges import InvariantViolation

CHUNK = 50


def run_many(first: int, count: int, plan: Plan) -> tuple[int, list[tuple[int, str]]]:
    """Run some seeds; returns how many callbacks ran and which seeds violate an invariant."""
    steps, violations = 0, []
    for seed in range(first, first + count):
        history = History(seed, plan)
        try:
            history.run()
        except InvariantViolation as violation:
            violations.append((seed, str(violation)))
        steps += history.loop.steps
    return steps, violations


def show_story(seed: int, plan: Plan) -> int:
    """Run one seed and print its story."""
    history = History(seed, plan)
    try:
        history.run()
    except InvariantViolation as violation:
        print(history.story.text())
        print(f"seed {seed}: {violation}")
        return 1
    print(history.story.text())
    print(f"seed {seed}: no invariant is violated")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, help="in all; plans share them")
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--story", action="store_true", help="show the history of --seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--plan", choices=list(PLANS), help="default: each in turn")
    options = parser.parse_args()
    names = [options.plan] if options.plan else list(PLANS)
    if options.story:
        return show_story(options.seed, PLANS[names[0]])
    first, failed = options.seed, False
    for number, name in enumerate(names):
        end = options.seed + options.histories * (number + 1) // len(names)
        failed = run_plan(name, first, end, options.processes) or failed
        first = end
    return 1 if failed else 0


def run_plan(name: str, first: int, end: int, processes: int) -> bool:
    """Run the histories of one plan; returns whether any violates an invariant."""
    began, steps, violated = time.monotonic(), 0, 0
    with ProcessPoolExecutor(processes) as pool:
        work = [
            pool.submit(run_many, at, min(CHUNK, end - at), PLANS[name])
            for at in range(first, end, CHUNK)
        ]
        for each in work:
            more, found = each.result()
            steps += more
            violated += len(found)
            for seed, violation in found:
                print(f"seed {seed}: {violation}", flush=True)
                print(f"  python -m tests.sim --plan {name} --seed {seed} --story shows it")
    took = time.monotonic() - began
    counts = f"{end - first} histories, {steps} steps, {took:.0f} s"
    print(f"{name}, seeds from {first}: {counts}: {violated} violated", flush=True)
    return violated > 0


if __name__ == "__main__":
    sys.exit(main())
