"""``counterpoise unload``: hand a bundle, or all of a namespace, to another broker."""

import argparse
import sys
from urllib.parse import quote

from counterpoise.app.cluster_admin import ClusterAdmin
from counterpoise.app.errors import UserError
from counterpoise.app.histories import trail_of
from counterpoise.app.target import Target, with_target
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionLog, NewAction

EXIT_ELSEWHERE = 1


def run(args: argparse.Namespace) -> int:
    """Run ``unload``: unload the target, and print its owner afterwards."""
    return with_target(args, _unload)


async def _unload(cluster: ClusterAdmin, target: Target, args: argparse.Namespace) -> int:
    bundle = await target.bundle(cluster)
    # Check the target first: a request that the cluster never got is not recorded.
    if bundle is None:
        if args.to is not None:
            raise UserError(f"--to {args.to}: name one bundle, or a topic in it")
        await cluster.boundaries(target.namespace)
        before = None
    else:
        before = await cluster.owner(bundle)
    action = NewAction(
        trail_of(args.history, may_be_new=True), ActionKind.UNLOAD, args.who, args.why
    )
    async with action.recorded(wall_clock_ms) as log:
        return await _carry_out(cluster, target, args, bundle, before, log)


async def _carry_out(
    cluster: ClusterAdmin,
    target: Target,
    args: argparse.Namespace,
    bundle: str | None,
    before: str | None,
    log: ActionLog,
) -> int:
    to = f"?destinationBroker={quote(args.to, safe='')}" if args.to else ""
    if bundle is None:
        await cluster.ask("PUT", f"/admin/v2/namespaces/{target.namespace}/unload")
        _say(f"{target.namespace}: every bundle was unloaded")
        return 0
    began_ms = wall_clock_ms()
    await cluster.ask("PUT", f"/admin/v2/namespaces/{bundle}/unload{to}")
    if args.to is None:
        after = await cluster.owner(bundle)
        await log.record(_outcome(bundle, before, "", after, began_ms))
        owner = f"{after} owns it now" if after else "no broker owns it until its next lookup"
        _say(f"{bundle}: unloaded from {before or 'no broker'}; {owner}")
        return 0
    after = await cluster.until_owned(bundle, args.to, args.wait)
    await log.record(_outcome(bundle, before, args.to, after, began_ms))
    _say(f"{bundle}: from {before or 'no broker'} to {after or 'no broker yet'}")
    if after == args.to:
        return 0
    sys.stderr.write(
        f"counterpoise: {args.to} does not own it after {args.wait:g} s: another broker may have "
        "acquired it first, or it acquires it at the next lookup\n"
    )
    return EXIT_ELSEWHERE


def _outcome(
    bundle: str, before: str | None, destination: str, after: str | None, began_ms: int
) -> MoveOutcome:
    """Return the outcome of an unload, with the owner ``after`` it.

    Without a destination every owner counts as moved to, even the former one.
    """
    status = MoveStatus.MOVED if after and after == (destination or after) else MoveStatus.ELSEWHERE
    return MoveOutcome(
        f"{began_ms}-unload",
        began_ms,
        bundle,
        before or "",
        destination,
        status if after else MoveStatus.UNOWNED,
        after or "",
        began_ms,
        wall_clock_ms(),
    )


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
