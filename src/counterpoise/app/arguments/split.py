"""Arguments of ``counterpoise split``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.decide.splitting.options import ALGORITHM_NAMES

DESCRIPTION = "Splits a bundle."

EPILOG = """\
examples:
  counterpoise split public/default/0x00000000_0x40000000 --admin-url http://broker-1:8080
      in the middle of its range
  counterpoise split persistent://public/default/orders --admin-url URL \\
          --algorithm topic_count_equally_divide --unload
      the bundle that this topic is in, so that both halves have as many topics; then unload them
  counterpoise split public/default/0x00000000_0x40000000 --at 0x10000000 --admin-url URL
      at this boundary

Prints the new bundles. Works on this product's clusters and on Apache's.
Exit status: 0, or 1 if it is not split, 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``split``."""
    common.add_target(parser, namespaces=False)
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHM_NAMES,
        metavar="NAME",
        help=f"{', '.join(ALGORITHM_NAMES)} (default: as the cluster is set)",
    )
    parser.add_argument(
        "--at", action="append", type=_position, metavar="HASH", help="where, once or more"
    )
    common.flag(
        parser, "--unload", ("unload the parts at once, so that the cluster places them again")
    )
    common.add_client(parser)


def _position(text: str) -> int:
    try:
        found = int(text, 0)
    except ValueError:
        found = -1
    if not 0 <= found <= 0xFFFFFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no hash from 0 to 0xffffffff")
    return found
