"""`make real`: the balancer as its operators use it, on a real Apache Pulsar under load.

Three brokers of Pulsar 4.0.7, under either load manager, a load of which the busiest topic is a
third, and every verb in turn. What each says is kept in a folder, and checked against what the
brokers say themselves and what became of every message.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.conformance.jars import pulsar_lib
from tests.real.alarms import raise_alarms
from tests.real.bookies import judge_bookies
from tests.real.compare import compare
from tests.real.failures import endure
from tests.real.hand_over import judge_hand_over
from tests.real.harmless import judge_requests
from tests.real.outages import judge_outages
from tests.real.own_brokers import judge_own_brokers
from tests.real.record import record
from tests.real.roll import roll
from tests.real.slow_broker import judge_slow_broker
from tests.real.soak import SoakPlan, soak
from tests.real.storage import judge_storage
from tests.real.story import run_story
from tests.real.what_if import judge_what_if

MANAGERS = ("modular", "extensible")
EXIT_NOT_RUN = 3
USUAL = SoakPlan(0.0)


def _judged(args: argparse.Namespace, lib: Path, home: Path, manager: str) -> int:
    """How many checks failed, of those that were asked for, under one load manager."""
    if args.harmless:
        return judge_requests(lib, home, manager, args.question, args.seed)
    if args.soak:
        plan = SoakPlan(
            args.soak * 60, args.restart_every, phase_s=args.phase, namespaces=args.namespaces
        )
        return soak(lib, home, manager, plan)
    if args.compare:
        return compare(lib, home, manager, args.compare, args.seed)
    if args.what_if:
        return judge_what_if(lib, home, manager, args.what_if)
    if args.record:
        record(lib, home, manager, args.record, args.seed, args.statistics)
        return 0
    forms = {
        "alarms": raise_alarms, "failures": endure, "slow_broker": judge_slow_broker, "roll": roll,
    }  # fmt: skip
    asked = next((judge for name, judge in forms.items() if getattr(args, name)), run_story)
    return asked(lib, home, manager)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make real", description=__doc__)
    parser.add_argument("--manager", action="append", choices=MANAGERS, help="(both)")
    parser.add_argument(
        "--record",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help="instead, let its own shedder work, and count how we agree with it",
    )
    parser.add_argument(
        "--soak",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help="instead, balance at Pulsar's default settings, a broker restarted every ten minutes",
    )
    parser.add_argument(
        "--restart-every",
        type=float,
        default=USUAL.restart_every_s,
        metavar="S",
        help="how often a soak restarts a broker (%(default)g)",
    )
    parser.add_argument(
        "--phase",
        type=float,
        default=USUAL.phase_s,
        metavar="S",
        help="after how long a soak's load changes (%(default)g)",
    )
    parser.add_argument(
        "--namespaces",
        type=int,
        default=USUAL.namespaces,
        metavar="N",
        help="of thirty topics each, that a soak's load is on (%(default)s)",
    )
    parser.add_argument(
        "--alarms", action="store_true", help="instead, stop and kill brokers under the watchdog"
    )
    parser.add_argument(
        "--compare",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help="instead, let Pulsar's strategies and ours play for so long each, side by side",
    )
    parser.add_argument(
        "--failures",
        action="store_true",
        help="instead, carry out plans of several rounds, and freeze and kill brokers meanwhile",
    )
    parser.add_argument(
        "--roll",
        action="store_true",
        help="instead, restart five brokers one after the other, undrained and by `roll`",
    )
    parser.add_argument(
        "--slow-broker",
        action="store_true",
        help="instead, slow one broker tenfold beside a balancer",
    )
    parser.add_argument(
        "--what-if",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help="instead, predict a fourth broker and 32 bundles for 4, do both, and measure so long",
    )
    parser.add_argument(
        "--harmless",
        action="store_true",
        help="instead, ask brokers that have just started every request of docs/REQUESTS.md",
    )
    parser.add_argument(
        "--storage",
        action="store_true",
        help="instead, hold what `counterpoise storage` says against clients and brokers",
    )
    parser.add_argument(
        "--bookies",
        action="store_true",
        help="instead, write ledgers on three bookies, and kill, stop and fence meanwhile",
    )
    parser.add_argument(
        "--hand-over",
        action="store_true",
        help="instead, stop Pulsar's brokers, let ours serve the same bookies, and back",
    )
    parser.add_argument(
        "--own-brokers",
        action="store_true",
        help="instead, run ours on three bookies, and kill them, stop them and cut them off",
    )
    parser.add_argument(
        "--question", action="append", default=[], metavar="PATH", help="one more, with --harmless"
    )
    parser.add_argument("--seed", type=int, default=0, help="of a recorded load (0)")
    parser.add_argument(
        "--statistics", type=int, default=10, metavar="S", help="between two measurements (10)"
    )
    parser.add_argument("--keep", type=Path, help="the folder (a new one)")
    args = parser.parse_args()
    lib = pulsar_lib()
    if lib is None:
        return EXIT_NOT_RUN
    home = args.keep or Path(tempfile.mkdtemp(prefix="counterpoise-real-"))
    print(f"everything is kept in {home}")
    if args.storage:
        return 1 if judge_storage(lib, home) else 0
    if args.bookies:
        return 1 if judge_bookies(lib, home) else 0
    if args.own_brokers:
        return 1 if judge_own_brokers(home) + judge_outages(home / "outages") else 0
    if args.hand_over:
        return 1 if judge_hand_over(lib, home) else 0
    failed = sum(_judged(args, lib, home / each, each) for each in args.manager or MANAGERS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
