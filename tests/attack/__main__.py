"""Attack a broker: ``python -m tests.attack [--frames N] [--seconds S] [--seed N] [--only PART]``.

A million mutated frames of the binary protocol by default, then storms of what is in good form but
far too much, then the admin API's routes with wrong values. It ends with 1 when something did not
hold, and says what, and with which seed.
"""

import argparse
import random
import sys

from tests.attack import rest
from tests.attack.storms.run import whole
from tests.attack.wire.run import attack


def main() -> int:
    """Run all attacks."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1800, help="at most so long")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", choices=("wire", "storms", "rest"), help="a part of it")
    args = parser.parse_args()
    failed = False
    if args.only in (None, "wire"):
        verdict = attack(frames=args.frames, seconds=args.seconds, seed=args.seed)
        sys.stdout.write(f"the binary protocol, seed {args.seed}\n{verdict}\n")
        failed = bool(verdict.problems) or verdict.tally.frames < args.frames
    if args.only in (None, "storms"):
        for name, stood in whole():
            sys.stdout.write(f"storm of {name}\n{stood}\n")
            failed = bool(stood.problems) or failed
    if args.only in (None, "rest"):
        sys.argv = [sys.argv[0]]
        failed = bool(rest.main()) or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
