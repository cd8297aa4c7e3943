"""Arguments of ``counterpoise bundles``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Lists the bundles of a cluster: the broker of each, its topics and its load."

EPILOG = """\
examples:
  counterpoise bundles --admin-url http://broker-1:8080                   the busiest first
  counterpoise bundles public/default --admin-url http://broker-1:8080
  counterpoise bundles --admin-url http://broker-1:8080 --sort topics --json

Lists the bundles that have loaded topics; a bundle without any carries no load. Rates are
those of the last minute where Apache's brokers measure. Works on this product's clusters and on
Apache's.
"""

COLUMNS = ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "topics", "backlog", "bundle", "broker")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``bundles``."""
    common.add_namespace(parser)
    common.add_listing(parser, COLUMNS)
    common.add_client(parser)
