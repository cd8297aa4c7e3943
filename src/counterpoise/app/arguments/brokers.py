"""Arguments of ``counterpoise brokers``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Lists the brokers of a cluster, who leads, and what each of them carries."

EPILOG = """\
examples:
  counterpoise brokers --admin-url http://broker-1:8080
  counterpoise brokers --admin-url http://broker-1:8080 --sort msg_rate_in --json

Works on this product's clusters and on Apache's. Bundles and topics are those that are loaded.
Exit status: 0, or 1 when some broker did not answer, 2 for an error to correct.
"""

COLUMNS = ("broker", "bundles", "topics", "msg_rate_in", "msg_rate_out", "bytes_rate_in")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``brokers``."""
    common.add_admin_url(parser)
    common.add_listing(parser, COLUMNS)
    common.add_client(parser)
