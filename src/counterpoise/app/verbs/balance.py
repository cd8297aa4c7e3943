"""``counterpoise balance``: watch a cluster, decide what to move, move it with ``--execute``."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from counterpoise.app.addresses import admin_urls, listen_address
from counterpoise.app.arguments.rules import refuse_idle
from counterpoise.app.client import client_argv, client_security
from counterpoise.app.cluster_strategy import strategy_of
from counterpoise.app.clusters.console_process import ConsoleProcess
from counterpoise.app.conf import changing_nothing, conf_argv
from counterpoise.app.errors import UserError
from counterpoise.app.notify_options import notify_options
from counterpoise.app.output import say_with_time
from counterpoise.app.signals import until_signal
from counterpoise.app.spark import spark_conf, written
from counterpoise.app.verbs.balance_plan import run_plan
from counterpoise.app.verbs.rules import moves_of, rules_of
from counterpoise.pipeline.clock import HTTP_TIMEOUT_S
from counterpoise.pipeline.runner import RunSettings, SparkBalancer
from counterpoise.pipeline.stream.running import StreamFailedError
from counterpoise.pipeline.stream.session import SessionError
from counterpoise.pipeline.stream.trouble import sentence_of
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions
from counterpoise.pipeline.tables.keeping import KeepingOptions
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.outage import through_outages

EXIT_STREAM_FAILED = 3


def run(args: argparse.Namespace) -> int:
    """Run ``balance``: balance until SIGTERM or Ctrl-C, or carry out a plan."""
    if not args.execute:
        refuse_idle(args, args.idle_in_dry_run, "without --execute: nothing is moved")
    if args.plan:
        refuse_idle(args, args.idle_with_plan, "of a --plan")
        return run_plan(args, rules_of(args))
    refuse_idle(args, args.idle_without_plan, "without --plan")

    settings = _settings(args)
    strategy, _, note = asyncio.run(strategy_of(args, settings.addresses))
    mode = "moves bundles" if settings.executor.execute else "dry run: nothing is moved"
    own = (strategy.shedder.options, strategy.placement.options)
    for sentence in (*changing_nothing(args.settings, own), *([note] if note else [])):
        say_with_time(sentence)
    say_with_time(f"balancing {args.admin_url} by {strategy.shedder.name} ({mode})")
    say_with_time(f"history in {open_location(settings.history).address}")
    try:
        with _console(args):
            first = SparkBalancer(settings, strategy, say_with_time)
            patient = replace(settings, heartbeat=settings.heartbeat.after_an_outage())
            again = partial(SparkBalancer, patient, strategy, say_with_time)
            asyncio.run(until_signal(partial(through_outages, first, again, report=say_with_time)))
    except (HistoryFaultError, SessionError) as error:
        raise UserError(f"{error} (details: {written(error)})") from None
    except StreamFailedError as error:
        sys.stderr.write(
            f"counterpoise: the stream ended by itself: {sentence_of(str(error))} (details: "
            f"{written(error)}); start it again: it continues where it stopped\n"
        )
        return EXIT_STREAM_FAILED
    say_with_time("stopped")
    return 0


@contextlib.contextmanager
def _console(args: argparse.Namespace) -> Iterator[None]:
    """Run a console in a child process during the block, if ``--console`` is given."""
    if args.console is None:
        yield
        return

    more = ["--history", args.history, *client_argv(args), *conf_argv(args)]
    console = ConsoleProcess(admin_urls(args.admin_url), port=args.console, more=more)
    say_with_time(f"console at {console.url}")
    try:
        yield
    finally:
        console.stop()


def _settings(args: argparse.Namespace) -> RunSettings:
    return RunSettings(
        addresses=admin_urls(args.admin_url),
        history=args.history,
        security=client_security(args),
        answer_within_s=args.timeout or HTTP_TIMEOUT_S,
        master=args.master,
        spark_conf=tuple(spark_conf(args).items()),
        shards=args.shards,
        poll_every_s=args.interval,
        executor=replace(moves_of(args), execute=args.execute),
        once=args.once,
        metrics=listen_address(args.metrics),
        watchdog=args.watchdog,
        notify=notify_options(args),
        rules=rules_of(args),
        heartbeat=HeartbeatOptions(wait_s=args.wait_for_history),
        keeping=KeepingOptions(
            retain_days=args.retain_days, time_travel_days=args.time_travel_days
        ),
    )
