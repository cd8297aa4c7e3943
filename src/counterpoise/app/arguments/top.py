"""Arguments of ``counterpoise top``."""

import argparse

from counterpoise.app.arguments import common

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
    common.add_admin_url(parser)
    common.number(parser, "--interval", "S", float, 1.0, "seconds between two looks")
    common.flag(parser, "--once", "show it once and stop")
    common.flag(parser, "--all", "also show limits at which no client waits")
    common.add_client(parser)
