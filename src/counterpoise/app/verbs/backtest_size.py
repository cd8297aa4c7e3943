"""``counterpoise backtest --usage-at-most``: how many brokers a load needs."""

import argparse
import json
import sys
from functools import cache

from counterpoise.app.errors import UserError
from counterpoise.app.verbs.backtest_grid import candidates_of
from counterpoise.app.verbs.backtest_source import change_of, move_seconds_of, plain_source
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.run import joined, replay_here, tasks_of
from counterpoise.pipeline.backtest.what_if import ChangedSource, fewest_brokers, resized

DEFAULT_STRATEGY = "Counterpoise"
MOST_TIMES = 8
"""The largest multiple of the present number of brokers that is tried."""


def size(args: argparse.Namespace) -> int:
    """Replay under the first strategy with more or fewer brokers, and print how many are enough."""
    if not 0 < args.usage_at_most < 100:
        raise UserError(f"--usage-at-most {args.usage_at_most:g}: expected a per cent, 0 to 100")
    if args.compare or args.plot or args.save or args.optimum:
        raise UserError(
            "--usage-at-most replays one strategy: no --compare, --plot, --save, --optimum"
        )
    args.strategies = args.strategies or DEFAULT_STRATEGY
    candidate = candidates_of(args)[1]
    source, change, move_s = plain_source(args), change_of(args), move_seconds_of(args)
    names = source.open().brokers
    present = len(names) + change.added - len(change.without)

    @cache
    def replay(more: int) -> BacktestResult:
        changed = ChangedSource(source, resized(change, names, more))
        tasks = tasks_of([candidate], changed, parts=args.spans, move_s=move_s, seed=args.seed)
        sentence = f"replayed with {present + more} brokers\n"
        return joined(replay_here(tasks, lambda _: sys.stderr.write(sentence)))[0]

    found = fewest_brokers(replay, args.usage_at_most, 1 - present, (MOST_TIMES - 1) * present)
    now = replay(0)
    if args.json:
        enough = None if found is None else present + found
        answer = {"brokers": present, "enough": enough, "usage": now.usage}
        if found is not None:
            answer = {**answer, "usage_then": replay(found).usage}
        sys.stdout.write(json.dumps(answer) + "\n")
        return 0
    sys.stdout.write(_sentence(present, found, now, replay(found or 0), args.usage_at_most))
    return 0


def _sentence(
    present: int, found: int | None, now: BacktestResult, then: BacktestResult, most_used: float
) -> str:
    sentence = (
        f"with {present} brokers the fullest one uses up to {now.usage:.0f} % of its processor or "
        f"network for 95 % of the time, by {now.label} (max/mean {now.imbalance:.3f})"
    )
    if found is None:
        return (
            f"{sentence}; {MOST_TIMES * present} brokers would not bring that to {most_used:g} %\n"
        )
    if found == 0:
        return f"{sentence}; one broker less would be more than {most_used:g} %\n"
    return (
        f"{sentence}; {present + found} brokers are enough for {most_used:g} %: {then.usage:.0f} % "
        f"(max/mean {then.imbalance:.3f})\n"
    )
