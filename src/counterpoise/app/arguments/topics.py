"""Arguments of ``counterpoise topics``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Lists the loaded topics of a cluster: bundle, broker, clients and load."

EPILOG = """\
examples:
  counterpoise topics --admin-url http://broker-1:8080                    the busiest first
  counterpoise topics public/default --admin-url http://broker-1:8080 --sort backlog
  counterpoise topics --admin-url http://broker-1:8080 --json

Lists the topics that are loaded. Rates are those of the last minute where Apache's brokers measure.
Works on this product's clusters and on Apache's.
"""

COLUMNS = ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "backlog", "topic", "bundle", "broker")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``topics``."""
    common.add_namespace(parser)
    common.add_listing(parser, COLUMNS)
    common.add_client(parser)
