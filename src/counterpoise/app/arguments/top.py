"""Arguments of ``counterpoise top``."""

from __future__ import annotations

import argparse

from counterpoise.app.client import add_admin_url_argument, add_client_arguments

DESCRIPTION = "Shows which rate limits throttle which producers and subscriptions."

EPILOG = """\
examples:
  counterpoise top --admin-url http://127.0.0.1:8080            every second, until Ctrl-C
  counterpoise top --admin-url http://127.0.0.1:8080 --once     once, for a script

Shows every publish and dispatch limit of every broker of the cluster at which clients wait: the
level (subscription, topic, resource group, broker), its rates, how much passes it, and the
producers and subscriptions that wait. Apache's brokers do not list them, and are named.
Exit status: 0; with --once 1 when some broker did not list its limits; 2 for something to put
right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``top``."""
    add_admin_url_argument(parser)
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="S", help="seconds between two looks (1)"
    )
    parser.add_argument("--once", action="store_true", help="show it once and stop")
    parser.add_argument("--all", action="store_true", help="limits at which no client waits, too")
    add_client_arguments(parser)
