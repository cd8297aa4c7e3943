"""Arguments of ``counterpoise unload``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments.common import add_trail_arguments
from counterpoise.app.client import add_client_arguments
from counterpoise.app.target import add_target_argument

DESCRIPTION = "Unloads a bundle, or every bundle of a namespace."

EPILOG = """\
examples:
  counterpoise unload public/default/0x00000000_0x40000000 --admin-url http://broker-1:8080
      to whichever broker the cluster's placement chooses
  counterpoise unload persistent://public/default/orders --to broker-2:8080 --admin-url URL
      the bundle that this topic is in, to a broker by its id
  counterpoise unload public/default --admin-url http://broker-1:8080
      every bundle of the namespace

The cluster is asked afterwards which broker owns the bundle. Works on this product's clusters and
on Apache's. Exit status: 0, or 1 when the broker of --to does not own it within --wait, 2 for
something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``unload``."""
    add_target_argument(parser)
    parser.add_argument("--to", metavar="BROKER", help="host:port, as `counterpoise brokers` lists")
    parser.add_argument(
        "--wait",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds until the broker of --to is to have it (10)",
    )
    add_trail_arguments(parser)
    add_client_arguments(parser)
