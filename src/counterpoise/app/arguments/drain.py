"""Arguments of ``counterpoise drain``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments.common import (
    add_at_once_argument,
    add_execute_argument,
    add_json_argument,
    add_placement_argument,
    add_trail_arguments,
)
from counterpoise.app.client import add_admin_url_argument, add_client_arguments
from counterpoise.app.numbers import count

DESCRIPTION = "Move every bundle of a broker to others, through the cluster's admin API."

EPILOG = """\
examples:
  counterpoise drain broker-3:8080 --admin-url http://localhost:8080
      where each of its bundles would go, and why; nothing is touched
  counterpoise drain broker-3:8080 --admin-url http://localhost:8080 --execute
      the same, carried out; each new owner is asked whether it is the owner

Isolation policies, anti-affinity groups, failure domains and the cluster's own settings are read
from the cluster and heeded. What fails is placed and tried again, --attempts times in all.
A broker that is empty is a broker still: new topics may come to it until it is stopped. With
--history it is cordoned: the balancer of that history gives it nothing until `counterpoise refill`
or --release.
Exit status: 0 when nothing is left on it (or would be), 1 when something is, 2 for something to
put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``drain``."""
    parser.add_argument("broker", metavar="BROKER", help="host:port, as the cluster lists it")
    add_admin_url_argument(parser)
    add_execute_argument(parser)
    add_placement_argument(parser)
    add_at_once_argument(parser)
    parser.add_argument(
        "--attempts", type=count, default=3, metavar="N", help="how often a bundle is tried (3)"
    )
    parser.add_argument(
        "--partial", action="store_true", help="move what can go even if something cannot"
    )
    parser.add_argument(
        "--release",
        action="store_true",
        help="move nothing; end the cordon of a broker that was drained with --history",
    )
    add_trail_arguments(parser)
    add_json_argument(parser, "plan and outcomes")
    add_client_arguments(parser)
