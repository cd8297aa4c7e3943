"""``counterpoise brokers``: the brokers of a cluster, and what each carries."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from counterpoise.app.client import add_admin_url_argument, add_client_arguments
from counterpoise.app.cluster_admin import ClusterAdmin, with_cluster
from counterpoise.app.cluster_tables import BrokerRow, broker_row, topic_rows, unasked
from counterpoise.app.errors import UserError
from counterpoise.app.listing import add_listing_arguments, list_rows
from counterpoise.pipeline.collect.where import web_address

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

EPILOG = """\
examples:
  counterpoise brokers --admin-url http://broker-1:8080
  counterpoise brokers --admin-url http://broker-1:8080 --sort msg_rate_in --json

Works on this product's clusters and on Apache's. Bundles and topics are those that are loaded.
Exit status: 0, or 1 when some broker did not answer, 2 for something to put right.
"""
EXIT_SILENT = 1
COLUMNS = ("broker", "bundles", "topics", "msg_rate_in", "msg_rate_out", "bytes_rate_in")


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``brokers``."""
    parser = subparsers.add_parser(
        "brokers",
        help="the brokers of a cluster, and what each carries",
        description="Lists the brokers of a cluster, who leads, and what each of them carries.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_admin_url_argument(parser)
    add_listing_arguments(parser, COLUMNS)
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """List them."""
    rows = with_cluster(args, brokers_of)
    list_rows(rows, args, "the cluster has no brokers")
    return EXIT_SILENT if any(each.error for each in rows) else 0


async def brokers_of(cluster: ClusterAdmin) -> list[BrokerRow]:
    """A row for each active broker, those that do not answer too."""
    active = await cluster.ask("GET", "/admin/v2/brokers")
    leader = await cluster.leader()

    async def one(broker: str) -> BrokerRow:
        url = web_address(broker, cluster.urls)
        try:
            stats = await cluster.reach(url, "GET", "/admin/v2/broker-stats/topics")
        except UserError as error:
            return unasked(broker, str(error), leader=broker == leader)
        return broker_row(broker, topic_rows(broker, stats), leader=broker == leader)

    return list(await asyncio.gather(*map(one, active)))
