"""``counterpoise topics``: the topics of a cluster, where they are and what passes through them."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from counterpoise.app.client import add_admin_url_argument, add_client_arguments
from counterpoise.app.cluster_admin import ClusterAdmin, with_cluster
from counterpoise.app.cluster_tables import TopicRow, topic_rows
from counterpoise.app.listing import add_listing_arguments, list_rows
from counterpoise.names.namespace import NamespaceName
from counterpoise.pipeline.collect.where import web_address

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

EPILOG = """\
examples:
  counterpoise topics --admin-url http://broker-1:8080                    the busiest first
  counterpoise topics public/default --admin-url http://broker-1:8080 --sort backlog
  counterpoise topics --admin-url http://broker-1:8080 --json

Lists the topics that are loaded. Rates are those of the last minute where Apache's brokers measure.
Works on this product's clusters and on Apache's.
"""
COLUMNS = ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "backlog", "topic", "bundle", "broker")


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``topics``."""
    parser = subparsers.add_parser(
        "topics",
        help="where each topic is, and what passes through it",
        description="Lists the loaded topics of a cluster: bundle, broker, clients and load.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_namespace_argument(parser)
    add_listing_arguments(parser, COLUMNS)
    add_client_arguments(parser)
    return parser


def add_namespace_argument(parser: argparse.ArgumentParser) -> None:
    """``--admin-url``, and which namespace to show."""
    parser.add_argument(
        "namespace", nargs="?", metavar="NAMESPACE", help="tenant/namespace (default: all)"
    )
    add_admin_url_argument(parser)


def run(args: argparse.Namespace) -> int:
    """List them."""

    async def work(cluster: ClusterAdmin) -> list[TopicRow]:
        return await topics_of(cluster, args.namespace)

    rows = with_cluster(args, work)
    list_rows(rows, args, "no topic is loaded")
    return 0


async def topics_of(cluster: ClusterAdmin, namespace: str | None) -> list[TopicRow]:
    """The loaded topics of every broker; raises `UserError` if one cannot be asked."""
    if namespace is not None:
        NamespaceName.parse(namespace)
        await cluster.ask("GET", f"/admin/v2/namespaces/{namespace}/bundles")

    async def one(broker: str) -> list[TopicRow]:
        url = web_address(broker, cluster.urls)
        return topic_rows(broker, await cluster.reach(url, "GET", "/admin/v2/broker-stats/topics"))

    active = await cluster.ask("GET", "/admin/v2/brokers")
    found = [row for rows in await asyncio.gather(*map(one, active)) for row in rows]
    wanted = f"{namespace}/"
    return [each for each in found if namespace is None or each.bundle.startswith(wanted)]
