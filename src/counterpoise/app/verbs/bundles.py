"""``counterpoise bundles``: the bundles of a cluster, where they are and what they carry."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from counterpoise.app.client import add_client_arguments
from counterpoise.app.cluster_admin import ClusterAdmin, with_cluster
from counterpoise.app.cluster_tables import BundleRow, bundle_rows
from counterpoise.app.listing import add_listing_arguments, list_rows
from counterpoise.app.verbs.topics import add_namespace_argument, topics_of

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

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


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``bundles``."""
    parser = subparsers.add_parser(
        "bundles",
        help="where each bundle is, and what it carries",
        description="Lists the bundles of a cluster: the broker of each, its topics and its load.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_namespace_argument(parser)
    add_listing_arguments(parser, COLUMNS)
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """List them."""

    async def work(cluster: ClusterAdmin) -> list[BundleRow]:
        return bundle_rows(await topics_of(cluster, args.namespace))

    rows = with_cluster(args, work)
    list_rows(rows, args, "no bundle has a loaded topic")
    return 0
