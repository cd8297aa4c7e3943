"""``counterpoise bundles``: the bundles of a cluster, where they are and what they carry."""

import argparse

from counterpoise.app.cluster_admin import ClusterAdmin, with_cluster
from counterpoise.app.cluster_tables import BundleRow, bundle_rows
from counterpoise.app.listing import list_rows
from counterpoise.app.verbs.topics import topics_of


def run(args: argparse.Namespace) -> int:
    """Run ``bundles``: list the bundles."""

    async def work(cluster: ClusterAdmin) -> list[BundleRow]:
        return bundle_rows(await topics_of(cluster, args.namespace))

    rows = with_cluster(args, work)
    list_rows(rows, args, "no bundle has a loaded topic")
    return 0
