"""Compare every decision with Apache Pulsar's own classes: `python -m tests.conformance`."""

import argparse
import sys
from pathlib import Path

from tests.conformance.jars import AVG_SHEDDER_VERSION, LIB_VARIABLE, MAIN_VERSION, pulsar_lib
from tests.conformance.runner import Outcome, run
from tests.conformance.suites import SUITES
from tests.conformance.worker import Judge

BOUNDED_LINES = 300
BOUNDED_SECONDS = 15.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000, help="lines a suite (10000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other inputs (1)")
    parser.add_argument("--only", action="append", metavar="NAME", help="suites to run (all)")
    parser.add_argument("--jars", type=Path, metavar="DIR", help="the directory of the 4.0.7 jars")
    parser.add_argument("--bounded", action="store_true", help="a few minutes: for every change")
    parser.add_argument("--list", action="store_true", help="name the suites and stop")
    parser.add_argument(
        "--out", type=Path, default=Path("artifacts/conformance"), help="differences, minimised"
    )
    args = parser.parse_args()
    unknown = sorted(set(args.only or ()) - set(SUITES))
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}; there are {', '.join(SUITES)}")
    return args


def main() -> int:
    args = _arguments()
    if args.list:
        print("\n".join(SUITES))
        return 0
    wanted = [SUITES[name] for name in args.only or SUITES]
    outcomes: list[Outcome] = []
    for version in (MAIN_VERSION, AVG_SHEDDER_VERSION):
        suites = [suite for suite in wanted if suite.version == version]
        if not suites:
            continue
        lib = args.jars if args.jars and version == MAIN_VERSION else pulsar_lib(version)
        if lib is None:
            print(f"not judged, for want of Pulsar {version}: {', '.join(s.name for s in suites)}")
            print(f"(give the jars with {LIB_VARIABLE}, or install Maven)")
            continue
        with Judge(lib) as judge:
            for suite in suites:
                outcome = run(
                    suite,
                    judge,
                    lines=BOUNDED_LINES if args.bounded else args.lines,
                    seconds=BOUNDED_SECONDS if args.bounded else None,
                    seed=args.seed,
                    out=args.out,
                    say=lambda text: print(text, flush=True),
                )
                print(outcome.sentence, flush=True)
                outcomes.append(outcome)
    idle = [o.suite for o in outcomes if not o.acted]
    if idle:
        print(f"never acted, so nothing was proved: {', '.join(idle)}")
    return 1 if idle or any(outcome.failures for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
