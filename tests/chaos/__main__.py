"""Chaos: ``python -m tests.chaos [--manager NAME] [--minutes N] [--seed S]``.

Ends with 1 when a judge has something to say.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from counterpoise.ownership.protocols import PROTOCOLS
from tests.chaos.faults import OF_BOOKIES, Kind, plan
from tests.chaos.judges import complaints, figures
from tests.chaos.run import Run, Terms


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run each manager that was asked for."""
    short = {name.rpartition(".")[2]: name for name in PROTOCOLS}
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--manager", choices=sorted(short), help="default: both in turn")
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults, for each manager")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two faults")
    parser.add_argument("--only", choices=[each.name for each in Kind], nargs="*")
    parser.add_argument(
        "--bookies", action="store_true", help="keep messages on three bookies, and strike them too"
    )
    parser.add_argument("--keep", type=Path, help="keep logs and data below this directory")
    args = parser.parse_args()
    usual = [each.name for each in Kind if args.bookies or each not in OF_BOOKIES]
    kinds = tuple(Kind[name] for name in args.only or usual)
    failed = False
    for name in [args.manager] if args.manager else short:
        _say(f"{name}, seed {args.seed}")
        with tempfile.TemporaryDirectory(prefix="chaos-") as text:
            folder = args.keep / name if args.keep else Path(text)
            bookies = 3 if args.bookies else 0
            terms = Terms(short[name], args.minutes * 60, every_s=args.every, bookies=bookies)
            history = Run(terms, plan(args.seed, kinds), folder, _say).run()
        found = complaints(history)
        _say(figures(history))
        _say("\n".join(found) or "all judges are silent")
        failed = failed or bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
