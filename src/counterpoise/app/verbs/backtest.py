"""``counterpoise backtest``: what strategies and settings would have done to recorded load."""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from functools import cache

from counterpoise.app.errors import UserError
from counterpoise.app.files import TABLE_FILES, expect_writable, write_table, writing_file
from counterpoise.app.numbers import expect_move_seconds
from counterpoise.app.packages import needed_by
from counterpoise.app.spark import spark_conf, spark_session, written
from counterpoise.app.verbs import backtest_compare, backtest_source
from counterpoise.app.verbs.backtest_grid import candidates_of, unplayed
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.optimum import report
from counterpoise.pipeline.backtest.report import (
    calibration,
    change,
    draw,
    idle,
    ranked,
    spreads,
    table,
)
from counterpoise.pipeline.backtest.run import (
    ReplayFailedError,
    followed_steps,
    is_little,
    joined,
    replay_here,
    replay_on_spark,
    results_table,
    tasks_of,
)
from counterpoise.pipeline.backtest.simulate import AS_RECORDED, BacktestCandidate
from counterpoise.pipeline.backtest.trace import Source
from counterpoise.pipeline.backtest.what_if import ChangedSource, fewest_brokers, resized

DEFAULT_STRATEGY = "Counterpoise"
MOST_TIMES = 8
"""The largest multiple of the present number of brokers that is tried."""
PICTURES = (".png", ".svg", ".pdf")
MOST_STEPS = 2_000_000
"""The largest number of steps that is replayed: almost four years, minute by minute."""
NO_POLICIES = (
    "isolation policies and anti-affinity groups are not modelled: recorded load has none, and "
    "`balance` may find fewer brokers for a bundle than a replay does\n"
)


def run(args: argparse.Namespace) -> int:
    """Run ``backtest``: replay a trace for each candidate, and rank or compare the results."""
    _check(args)
    try:
        if args.usage_at_most is not None:
            return _size(args)
        results = joined(_results_of(args, _replays(args)))
    except ReplayFailedError as error:
        raise UserError(f"{error} (details: {written(error)})") from None
    if args.save:
        with writing_file(args.save):
            write_table(results_table(ranked(results)), args.save)
    if args.json:
        sys.stdout.write(json.dumps([result.to_json() for result in ranked(results)]) + "\n")
    else:
        lines = [table(results), *idle(results), *spreads(results), *calibration(results)]
        sys.stdout.write("\n".join(lines) + "\n")
        if args.compare:
            now, then = backtest_compare.sides_of(args)
            lines = [
                *backtest_compare.differences(now, then, backtest_compare.split_count(now, then)),
                change(*results[:2]),
            ]
            sys.stdout.write("\n" + "\n".join(lines) + "\n")
    best = _optimum(args, results) if args.optimum else None
    if args.plot:
        title = f"backtest of {args.source}"
        with writing_file(args.plot):
            if best is None:
                draw(results, title, args.plot)
            else:
                report.draw_frontier(results, best, title, args.plot)
    return 0


def _size(args: argparse.Namespace) -> int:
    """Replay under the first strategy with more or fewer brokers, and print how many are enough."""
    if not 0 < args.usage_at_most < 100:
        raise UserError(f"--usage-at-most {args.usage_at_most:g}: expected a per cent, 0 to 100")
    if args.compare or args.plot or args.save or args.optimum:
        raise UserError(
            "--usage-at-most replays one strategy: no --compare, --plot, --save, --optimum"
        )
    args.strategies = args.strategies or DEFAULT_STRATEGY
    candidate = candidates_of(args)[1]
    source, change = backtest_source.plain_source(args), backtest_source.change_of(args)
    move_s = backtest_source.move_seconds_of(args)
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


def _optimum(args: argparse.Namespace, results: Sequence[BacktestResult]) -> report.Optimum:
    """Compute the best possible balance, print each result's distance from it, and return it."""
    with needed_by("--optimum", "optimum"):
        best = report.optimum_of(backtest_source.changed_source(args).open(), results)
    if not args.json:
        sys.stdout.write("\n" + "\n".join(report.distances(ranked(results), best)) + "\n")
    return best


def _check(args: argparse.Namespace) -> None:
    """Raise `UserError` for options that are invalid for any trace."""
    if args.spans < 1 or not 0 < args.step < math.inf:
        raise UserError("--spans and --step must be more than 0")
    expect_move_seconds(args.move_seconds)
    if args.optimum and args.spans > 1:
        raise UserError("--optimum is about one replay of the whole time: no --spans with it")
    if args.compare and (args.strategies or args.grid):
        raise UserError(
            "--compare takes its strategies from its two sides: no --strategies, --grid"
        )
    spark_conf(args)
    for option, path, endings in (
        ("--plot", args.plot, PICTURES),
        ("--save", args.save, TABLE_FILES),
    ):
        if path is not None:
            expect_writable(option, path, endings)


class _ReplayLines:
    """Prints the number of finished replays on stderr."""

    def __init__(self, replays: int) -> None:
        self._replays = replays
        self._began = time.monotonic()

    def replayed(self, done: int) -> None:
        took = time.monotonic() - self._began
        sys.stderr.write(f"{done} of {self._replays} replays are done after {took:.0f} s\n")

    def waits(self, why: str) -> None:
        sys.stderr.write(f"{why}\n")


def _results_of(
    args: argparse.Namespace, replays: Sequence[tuple[BacktestCandidate, Source]]
) -> list[BacktestResult]:
    trace = replays[0][1].open()
    if not max(1, args.spans) <= trace.steps <= MOST_STEPS:
        raise UserError(
            f"{args.source} is {trace.steps:,} steps of {trace.step_ms / 1000:g} s, and "
            f"{args.spans:,} to {MOST_STEPS:,} can be replayed: fewer --spans, fewer hours "
            "(--from, --to), or for synthetic load another --step"
        )
    move_s = backtest_source.move_seconds_of(args)
    follows = not args.optimum and all(backtest_source.has_moves(source) for _, source in replays)
    candidates = [candidate for candidate, _ in replays]
    followed = followed_steps(candidates, trace, args.spans) if follows else 0
    tasks = [
        task
        for candidate, source in replays
        for task in tasks_of(
            [candidate], source, parts=args.spans, move_s=move_s, seed=args.seed, followed=followed
        )
    ]
    # The last source has the most bundles: with --compare, its bundles may be split.
    much = not is_little(replays[-1][1].open(), len(replays))
    if args.master is None and (much or args.spark_conf):
        args.master = "local[*]"
    log = _ReplayLines(len(tasks))
    sys.stderr.write(
        f"{len(trace.brokers)} brokers, {len(trace.bundles):,} bundles, {trace.steps:,} steps of "
        f"{trace.step_ms / 1000:g} s, {len(tasks)} replays on {args.master or 'this process'}\n"
    )
    if followed:
        sys.stderr.write(
            f"the first {followed * trace.step_ms / 1000:g} s are followed as recorded, so that "
            "leaders remember what the recorded one did; all figures are of the time after that\n"
        )
    for sentence in backtest_source.change_of(args).sentences():
        sys.stderr.write(f"what if: {sentence}\n")
    sys.stderr.write(NO_POLICIES)
    if not args.compare:
        for sentence in unplayed(args):
            sys.stderr.write(f"{sentence}\n")
    if args.master is None:
        return replay_here(tasks, log.replayed)
    tried = [each.strategy for each, _ in replays if each.strategy is not None]
    own = [one for each in tried for one in (each.shedder, each.placement)]
    with spark_session(args, strategies=own) as spark:
        return replay_on_spark(spark, tasks, log)


def _replays(args: argparse.Namespace) -> list[tuple[BacktestCandidate, Source]]:
    """Return the replays to make, each as a candidate and the source of its trace."""
    source = backtest_source.changed_source(args)
    if not args.compare:
        followed = [AS_RECORDED] if backtest_source.has_moves(source) else []
        return [(candidate, source) for candidate in (*candidates_of(args), *followed)]
    now, then = backtest_compare.sides_of(args)
    sources = backtest_compare.sources_of(source, backtest_compare.split_count(now, then))
    return [
        (backtest_compare.candidate_of(side, args.thrash_span), replays)
        for side, replays in zip((now, then), sources, strict=True)
    ]
