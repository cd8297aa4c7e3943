"""``counterpoise topics``: the topics of a cluster, where they are and what passes through them."""

import argparse
import asyncio

from counterpoise.app.cluster_admin import ClusterAdmin, with_cluster
from counterpoise.app.cluster_tables import TopicRow, topic_rows
from counterpoise.app.listing import list_rows
from counterpoise.names.namespace import NamespaceName
from counterpoise.pipeline.collect.where import web_address


def run(args: argparse.Namespace) -> int:
    """Run ``topics``: list the loaded topics."""

    async def work(cluster: ClusterAdmin) -> list[TopicRow]:
        return await topics_of(cluster, args.namespace)

    rows = with_cluster(args, work)
    list_rows(rows, args, "no topic is loaded")
    return 0


async def topics_of(cluster: ClusterAdmin, namespace: str | None) -> list[TopicRow]:
    """Return the loaded topics of every broker, or those of a namespace.

    Raises `UserError` if a broker cannot be asked, or the namespace does not exist.
    """
    if namespace is not None:
        NamespaceName.parse(namespace)
        await cluster.boundaries(namespace)

    async def one(broker: str) -> list[TopicRow]:
        url = web_address(broker, cluster.urls)
        return topic_rows(broker, await cluster.reach(url, "GET", "/admin/v2/broker-stats/topics"))

    active = await cluster.brokers()
    found = [row for rows in await asyncio.gather(*map(one, active)) for row in rows]
    prefix = f"{namespace}/"
    return [each for each in found if namespace is None or each.bundle.startswith(prefix)]
