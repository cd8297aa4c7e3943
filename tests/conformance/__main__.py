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

EXIT_DIFFERENCES = 1
EXIT_NOT_JUDGED = 3


def _arguments(words: list[str] | None) -> argparse.Namespace:
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
    args = parser.parse_args(words)
    unknown = sorted(set(args.only or ()) - set(SUITES))
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}; there are {', '.join(SUITES)}")
    return args


def main(words: list[str] | None = None) -> int:
    """The exit status: 0 only when every suite was judged, acted, and had no difference."""
    args = _arguments(words)
    if args.list:
        print("\n".join(SUITES))
        return 0
    wanted = [SUITES[name] for name in args.only or SUITES]
    outcomes: list[Outcome] = []
    not_judged: list[str] = []
    for version in (MAIN_VERSION, AVG_SHEDDER_VERSION):
        suites = [suite for suite in wanted if suite.version == version]
        if not suites:
            continue
        lib = args.jars if args.jars and version == MAIN_VERSION else pulsar_lib(version)
        if lib is None:
            print(f"not judged, without Pulsar {version}: {', '.join(s.name for s in suites)}")
            print(f"(give the jars with {LIB_VARIABLE}, or install Maven)")
            not_judged += [suite.name for suite in suites]
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
    short = [outcome.shortcoming for outcome in outcomes if outcome.shortcoming]
    print("\n".join(short), end="\n" if short else "")
    if short or any(outcome.failures for outcome in outcomes):
        return EXIT_DIFFERENCES
    return EXIT_NOT_JUDGED if not_judged else 0


if __name__ == "__main__":
    sys.exit(main())
