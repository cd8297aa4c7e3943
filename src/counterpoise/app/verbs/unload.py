"""``counterpoise unload``: hand a bundle, or all of a namespace, to another broker."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import quote

from counterpoise.app.cluster_admin import ClusterAdmin
from counterpoise.app.target import Target, with_target

EXIT_ELSEWHERE = 1


def run(args: argparse.Namespace) -> int:
    """Unload it, and print the broker that owns it then."""
    return with_target(args, _unload)


async def _unload(cluster: ClusterAdmin, wanted: Target, args: argparse.Namespace) -> int:
    bundle = await wanted.bundle(cluster)
    to = f"?destinationBroker={quote(args.to, safe='')}" if args.to else ""
    if bundle is None:
        wanted.no_destination(args.to)
        await cluster.ask("PUT", f"/admin/v2/namespaces/{wanted.namespace}/unload")
        _say(f"{wanted.namespace}: every bundle was unloaded")
        return 0
    before = await cluster.owner(bundle)
    await cluster.ask("PUT", f"/admin/v2/namespaces/{bundle}/unload{to}")
    if args.to is None:
        after = await cluster.owner(bundle)
        owner = f"{after} owns it now" if after else "no broker owns it until its next lookup"
        _say(f"{bundle}: unloaded from {before or 'no broker'}; {owner}")
        return 0
    after = await cluster.until_owned(bundle, args.to, args.wait)
    _say(f"{bundle}: from {before or 'no broker'} to {after or 'no broker yet'}")
    if after == args.to:
        return 0
    sys.stderr.write(
        f"counterpoise: {args.to} does not own it after {args.wait:g} s: another broker may have "
        "acquired it first, or it acquires it at the next lookup\n"
    )
    return EXIT_ELSEWHERE


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
