"""``counterpoise split``: split a bundle in two or more."""

import argparse
import asyncio
import sys
from itertools import pairwise
from urllib.parse import urlencode

from counterpoise.app.cluster_admin import ClusterAdmin
from counterpoise.app.errors import UserError
from counterpoise.app.target import Target, with_target
from counterpoise.names.bundle import BundleName, BundleRange

HEARD_WITHIN_S = 5.0
POLL_S = 0.05
EXIT_WHOLE = 1
WHOLE = 2
"""A bundle in one piece has two boundaries: its lower and its upper one."""


def run(args: argparse.Namespace) -> int:
    """Run ``split``: split a bundle, and list its parts."""
    return with_target(args, _split)


async def _split(cluster: ClusterAdmin, target: Target, args: argparse.Namespace) -> int:
    bundle = await target.bundle(cluster)
    if bundle is None:
        raise UserError(f"{target.namespace} is a namespace: name one of its bundles, or a topic")
    algorithm = args.algorithm or ("specified_positions_divide" if args.at else None)
    if args.at and algorithm != "specified_positions_divide":
        raise UserError("--at goes with --algorithm specified_positions_divide, or with none")
    query = {
        "unload": str(args.unload).lower(),
        **({"splitAlgorithmName": algorithm} if algorithm else {}),
    }
    path = f"/admin/v2/namespaces/{bundle}/split?{urlencode(query)}"
    await cluster.ask("PUT", path, args.at)
    edges = await _edges(cluster, target.namespace, BundleName.parse(bundle).range)
    if len(edges) <= WHOLE:
        sys.stderr.write(
            f"counterpoise: {bundle} was not split: the cluster splits no bundle of fewer "
            "than two topics by their number, their load or given positions\n"
        )
        return EXIT_WHOLE
    for low, high in pairwise(edges):
        sys.stdout.write(f"{target.namespace}/{low}_{high}\n")
    return 0


async def _edges(cluster: ClusterAdmin, namespace: str, whole: BundleRange) -> list[str]:
    """The boundaries within the bundle ``whole`` after the split, in order.

    The broker that is asked may learn of the split late, so it is asked until there are more than
    two, for at most `HEARD_WITHIN_S` seconds.
    """
    deadline = asyncio.get_running_loop().time() + HEARD_WITHIN_S
    while True:
        found = await cluster.boundaries(namespace)
        edges = [each for each in found if whole.lower <= int(each, 16) <= whole.upper]
        if len(edges) > WHOLE or asyncio.get_running_loop().time() > deadline:
            return edges
        await asyncio.sleep(POLL_S)
