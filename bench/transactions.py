"""Transactions a second beside real Apache Pulsar in one run: produce one message or ten, commit.

The client is `pulsar-perf transaction`, Apache Pulsar's own load generator; brokers of both are one
each and sync what they acknowledge. Rounds alternate between the two; medians are compared, and the
ratios of the pairs are noted. Without Pulsar's jars there is no client, and nothing is measured.
"""

import contextlib
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.conformance.jars import pulsar_lib

from bench import _pulsar_perf
from bench._ours import up
from bench._real_pulsar import standalone
from bench.beside_pulsar import Servers, alternate, beside, spread
from bench.figures import Figure

ROUNDS = 5
MESSAGES = (1, 10)
THREADS = 10
RATE = "transactions_per_second"
SETTING = "transactionCoordinatorEnabled"


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    lib = pulsar_lib()
    if lib is None or not _pulsar_perf.available(lib):
        raise SystemExit("Pulsar's jars are not here, or have no pulsar-perf: make conformance")
    count = 50 if quick else 3_000
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="counterpoise-")))
        ours = stack.enter_context(up(folder / "ours", brokers=1, settings={SETTING: "true"}))
        servers: Servers = {"ours": ours}
        if not quick:
            real = standalone(lib, folder / "real", settings={SETTING: "true"})
            servers["real"] = stack.enter_context(real)
        figures = []
        for messages in MESSAGES[:1] if quick else MESSAGES:
            measure = partial(
                _pulsar_perf.transact, lib, count=count, messages=messages, threads=THREADS
            )
            results = alternate(servers, 1 if quick else ROUNDS, measure)
            what = f"transactions of {messages} message{'s' * (messages > 1)}, {THREADS} at once"
            failed = {
                which: sum(each["failed"] for each in runs) for which, runs in results.items()
            }
            if failed["ours"]:
                raise SystemExit(f"{what}: {failed['ours']:.0f} or their messages failed here")
            note = spread(results, RATE)
            if failed.get("real"):
                note += f"; {failed['real']:.0f} of Pulsar's or their messages failed"
            figures.append(replace(beside(what, "txn/s", results, RATE), note=note))
    return figures
