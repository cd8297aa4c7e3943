"""Arguments of ``counterpoise unload``."""

import argparse

from counterpoise.app.arguments import common

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
an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``unload``."""
    common.add_target(parser)
    parser.add_argument("--to", metavar="BROKER", help="host:port, as `counterpoise brokers` lists")
    common.number(
        parser,
        "--wait",
        "S",
        float,
        10.0,
        ("how many seconds to wait until the broker of --to owns it"),
    )
    common.add_trail(parser)
    common.add_client(parser)
