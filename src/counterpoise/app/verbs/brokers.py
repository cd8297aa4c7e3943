"""``counterpoise brokers``: the brokers of a cluster, and what each carries."""

import argparse
import asyncio

from counterpoise.app.cluster_admin import ClusterAdmin, with_cluster
from counterpoise.app.cluster_tables import BrokerRow, broker_row, topic_rows, unasked
from counterpoise.app.errors import UserError
from counterpoise.app.listing import list_rows
from counterpoise.pipeline.collect.where import web_address

EXIT_SILENT = 1


def run(args: argparse.Namespace) -> int:
    """Run ``brokers``: list the brokers."""
    rows = with_cluster(args, brokers_of)
    list_rows(rows, args, "the cluster has no brokers")
    return EXIT_SILENT if any(each.error for each in rows) else 0


async def brokers_of(cluster: ClusterAdmin) -> list[BrokerRow]:
    """Return a row for each active broker, including those that do not answer."""
    active = await cluster.brokers()
    leader = await cluster.leader()

    async def one(broker: str) -> BrokerRow:
        url = web_address(broker, cluster.urls)
        try:
            stats = await cluster.reach(url, "GET", "/admin/v2/broker-stats/topics")
            topics = topic_rows(broker, stats)
        except UserError as error:
            return unasked(broker, str(error), leader=broker == leader)
        return broker_row(broker, topics, leader=broker == leader)

    return list(await asyncio.gather(*map(one, active)))
