"""Finds faults of a cluster; reports only those that last."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Final

from counterpoise.decide.watchdog.observation import (
    ClusterObservation,
    WatchdogFinding,
    WatchdogMemory,
    WatchdogOptions,
)
from counterpoise.names.bundle import namespace_of, range_of
from counterpoise.names.namespace import SYSTEM_NAMESPACE_TEXT, is_left_in_place
from counterpoise.names.units import bytes_text

SLOW_BROKER: Final = "slow-broker"
KINDS: Final = (
    "no-leader",
    "several-leaders",
    "leader-does-not-shed",
    "two-owners",
    "no-owner",
    "not-serving",
    "in-flight",
    SLOW_BROKER,
)
IN_FLIGHT: Final = frozenset({"Assigning", "Releasing", "Splitting"})


def judge(
    cluster: ClusterObservation, before: WatchdogMemory, options: WatchdogOptions
) -> tuple[tuple[WatchdogFinding, ...], WatchdogMemory]:
    """Find the faults in one observation of a cluster; returns them and the memory for the next.

    Only faults that have lasted longer than the options' patience are returned, merged by cause.
    """
    now = remember(cluster, before, options)
    suspects = {each.subject_key: each for each in _suspects(cluster, now, options)}
    since = {key: _since(each, before, now) for key, each in suspects.items()}
    lasting = tuple(
        _lasted(each, since[key], cluster.now_ms)
        for key, each in sorted(suspects.items())
        if cluster.now_ms - since[key] >= _patience(each, cluster, options)
    )
    recorded = tuple(each for each in lasting if _is_of_channel(each))
    if cluster.records is None:
        # The channel cannot be read now, so it is not known whether its faults are over.
        recorded = before.recorded
        lasting += tuple(each for each in recorded if each.subject_key not in since)
    return by_cause(lasting), WatchdogMemory(
        since,
        now.carried_at_ms,
        now.carried,
        now.owners,
        now.moved_at_ms,
        recorded,
        now.slow_looks,
        now.quick_looks,
    )


def _is_of_channel(finding: WatchdogFinding) -> bool:
    """Whether a finding comes from the bundle state channel and not from the brokers."""
    stuck = finding.kind == "in-flight" and finding.remedy == "lookup"
    return stuck or (finding.kind == "not-serving" and "/" in finding.subject)


def remember(
    cluster: ClusterObservation, before: WatchdogMemory, options: WatchdogOptions
) -> WatchdogMemory:
    """The memory with one more observation: loads, owners and response times."""
    oldest = cluster.now_ms - options.idle_after_ms
    busy = {bundle: load for bundle, load in cluster.carried.items() if load > 0}
    at_ms = {**before.carried_at_ms, **dict.fromkeys(busy, cluster.now_ms)}
    at_ms = {
        bundle: at
        for bundle, at in at_ms.items()
        if at >= oldest and namespace_of(bundle) not in cluster.deleted
    }
    seen = {bundle: broker for broker, bundles in cluster.owned.items() for bundle in bundles}
    changed = any(before.owners.get(bundle, broker) != broker for bundle, broker in seen.items())
    carried = {b: load for b, load in before.carried.items() if b in at_ms} | busy
    slow, quick = slow_looks(cluster.answered_s, before, options)
    return WatchdogMemory(
        before.since_ms,
        at_ms,
        carried,
        {**before.owners, **seen},
        cluster.now_ms if changed else before.moved_at_ms,
        slow_looks=slow,
        quick_looks=quick,
    )


def slow_looks(
    answered_s: Mapping[str, float], before: WatchdogMemory, options: WatchdogOptions
) -> tuple[dict[str, int], dict[str, int]]:
    """Two counts by broker: in how many observations in a row it was slow, and recovered since.

    The second counts observations in which a broker once found slow was quick. It is found slow,
    and recovered, after the same number. `answered_s` is each broker's response time now, in
    seconds.
    """
    slow, quick = {}, {}
    for broker, seconds in answered_s.items():
        looks, since = before.slow_looks.get(broker, 0), before.quick_looks.get(broker, 0) + 1
        # Compared with the others in the same observation: if this machine is slow, all seem slow.
        others = [each for other, each in answered_s.items() if other != broker]
        is_slow = bool(others) and seconds >= options.slow_times * median(others)
        if is_slow and seconds >= options.slow_from_s:
            slow[broker] = looks + 1
        elif looks >= options.slow_looks > since:
            slow[broker], quick[broker] = looks, since
    return slow, quick


def _since(suspect: WatchdogFinding, before: WatchdogMemory, now: WatchdogMemory) -> int:
    """The time since which the suspected fault has been there in every observation."""
    if suspect.kind == "in-flight" and suspect.remedy == "lookup":
        return suspect.since_ms  # the time at which the record was written
    first = before.since_ms.get(suspect.subject_key, suspect.since_ms)
    return max(first, now.moved_at_ms) if suspect.kind == "leader-does-not-shed" else first


def _patience(
    suspect: WatchdogFinding, cluster: ClusterObservation, options: WatchdogOptions
) -> int:
    if suspect.kind == SLOW_BROKER:
        return 0  # it has already been slow in several observations
    if suspect.subject in cluster.starting:
        return options.start_patience_ms
    if suspect.kind == "leader-does-not-shed":
        return options.shed_patience_ms
    return options.patience_ms


def _lasted(finding: WatchdogFinding, since_ms: int, now_ms: int) -> WatchdogFinding:
    seconds = (now_ms - since_ms) / 1000
    sentence = f"{finding.sentence}, for {seconds:.0f} s"
    return replace(finding, since_ms=since_ms, sentence=sentence)


def _suspects(
    cluster: ClusterObservation, now: WatchdogMemory, options: WatchdogOptions
) -> Iterator[WatchdogFinding]:
    yield from _leaders(cluster, options)
    yield from _slow(cluster, now, options)
    holders: dict[str, list[str]] = {}
    for broker in sorted(cluster.owned):
        for bundle, is_active in sorted(cluster.owned[broker].items()):
            holders.setdefault(bundle, []).append(broker)
            if not is_active:
                yield WatchdogFinding(
                    "in-flight",
                    bundle,
                    cluster.now_ms,
                    f"{broker} has {bundle} and neither serves it nor releases it",
                    "unload",
                    broker,
                    cause=broker,
                )
    for bundle, brokers in holders.items():
        if len(brokers) > 1:
            yield WatchdogFinding(
                "two-owners",
                bundle,
                cluster.now_ms,
                f"{bundle} is owned by {' and '.join(brokers)} at once: messages can be lost",
                advice=f"stop all of them but one: {brokers[0]} stays the owner then",
                cause=" and ".join(brokers),
            )
    yield from _unowned(cluster, now, holders)
    yield from _recorded(cluster, holders)


def _leaders(cluster: ClusterObservation, options: WatchdogOptions) -> Iterator[WatchdogFinding]:
    named = sorted({leader for leader in cluster.leaders.values() if leader})
    if cluster.leaders and not named:
        yield WatchdogFinding(
            "no-leader",
            "cluster",
            cluster.now_ms,
            "no broker leads: nothing is placed, split or shed",
            advice="look at the brokers' connection to the metadata store",
        )
    for leader in named:
        if leader not in cluster.brokers:
            yield WatchdogFinding(
                "no-leader",
                leader,
                cluster.now_ms,
                f"the leader is {leader}, which is no broker of the cluster any more",
                advice="its session should have ended: look at the metadata store",
            )
    if len(named) > 1:
        named_by = ", ".join(
            f"{broker} says {who}" for broker, who in sorted(cluster.leaders.items())
        )
        yield WatchdogFinding(
            "several-leaders",
            "cluster",
            cluster.now_ms,
            f"the brokers do not agree who leads: {named_by}",
            advice="restart those that name the wrong one",
        )
    uneven = cluster.imbalance > options.uneven_above and len(cluster.brokers) > 1
    if cluster.sheds and uneven and len(named) == 1:
        yield WatchdogFinding(
            "leader-does-not-shed",
            named[0],
            cluster.now_ms,
            f"{named[0]} leads and is to shed load, but no bundle has moved although the imbalance "
            f"is {cluster.imbalance:.2f}",
            advice="`counterpoise advise` says what its strategy would do, and why not; if it "
            "would act, restart the leader",
        )


def _slow(
    cluster: ClusterObservation, now: WatchdogMemory, options: WatchdogOptions
) -> Iterator[WatchdogFinding]:
    for broker, looks in sorted(now.slow_looks.items()):
        if looks >= options.slow_looks:
            usual = median(s for other, s in cluster.answered_s.items() if other != broker)
            again = now.quick_looks.get(broker, 0)
            over = f", but not at the last {again}" if again else ""
            yield WatchdogFinding(
                SLOW_BROKER,
                broker,
                cluster.now_ms,
                f"{broker} takes {1000 * cluster.answered_s[broker]:.0f} ms to answer and the "
                f"other brokers {1000 * usual:.0f} ms, slow at {looks} looks in a row{over}",
                advice="look at its processor, disk and garbage collection; a balancer with "
                "--watchdog gives it nothing and takes nothing from it meanwhile",
                cause=broker,
            )


def _unowned(
    cluster: ClusterObservation, now: WatchdogMemory, holders: dict[str, list[str]]
) -> Iterator[WatchdogFinding]:
    """Bundles that carried load recently and have no owner now."""
    lost: dict[str, list[str]] = {}
    leaders = frozenset(cluster.leaders.values())
    for bundle in sorted(now.carried_at_ms.keys() - holders.keys()):
        namespace = namespace_of(bundle)
        # Under the extensible manager no broker lists bundles of the system namespace as its own.
        if is_left_in_place(namespace):
            continue
        if _was_split(bundle, holders):
            continue
        owner = now.owners.get(bundle, "")
        if owner in cluster.silent:
            lost.setdefault(owner, []).append(bundle)
        elif not cluster.silent and cluster.owned:  # a silent broker may own it
            load = bytes_text(now.carried.get(bundle, 0.0))
            yield WatchdogFinding(
                "no-owner",
                bundle,
                cluster.now_ms,
                f"no broker owns {bundle}, which carried {load}",
                "lookup",
                min(cluster.owned, default=""),
                cause=owner,
            )
    for broker, reason in sorted(cluster.silent.items()):
        owns = ""
        if bundles := lost.get(broker):
            owns = f" owns {len(bundles)} bundles that carried load, {bundles[0]} among them, and"
        leads = ", and it leads: nothing is placed, split or shed" if broker in leaders else ""
        yield WatchdogFinding(
            "not-serving",
            broker,
            cluster.now_ms,
            f"{broker}{owns or ' is listed and'} {_silence(cluster, broker, reason)}{leads}",
            advice="restart it"
            if broker in cluster.starting
            else "restart it, or end its session: its bundles go to other brokers then",
            cause=broker,
        )


def _silence(cluster: ClusterObservation, broker: str, reason: str) -> str:
    if broker in cluster.without_lookups:
        return "answers, but serves no lookups: clients that connect to it hang"
    if broker in cluster.starting:
        return (
            "answers, but refuses lookups: its bundle state channel "
            "(loadbalancer-service-unit-state) has not started, so it serves no client"
        )
    return f"does not answer ({reason})"


def lost_namespaces(cluster: ClusterObservation, before: WatchdogMemory) -> frozenset[str]:
    """The namespaces that carried load and now have a bundle without an owner."""
    holders = {bundle for bundles in cluster.owned.values() for bundle in bundles}
    return frozenset(namespace_of(each) for each in before.carried_at_ms.keys() - holders)


def _was_split(bundle: str, holders: Iterable[str]) -> bool:
    """Whether a broker owns part of the bundle's range."""
    lower, _, upper = range_of(bundle).partition("_")
    for other in holders:
        if namespace_of(other) == namespace_of(bundle):
            begins, _, ends = range_of(other).partition("_")
            # Boundaries are written with eight digits each, so text sorts as numbers do.
            if begins < upper and lower < ends:
                return True
    return False


def _recorded(
    cluster: ClusterObservation, holders: dict[str, list[str]]
) -> Iterator[WatchdogFinding]:
    """The bundles whose record in the state channel contradicts the brokers."""
    for bundle, record in sorted((cluster.records or {}).items()):
        namespace = namespace_of(bundle)
        if namespace == SYSTEM_NAMESPACE_TEXT or namespace in cluster.deleted:
            continue
        if record.state in IN_FLIGHT:
            yield WatchdogFinding(
                "in-flight",
                bundle,
                record.since_ms,
                f"{bundle} is {record.state} ({record.owner or 'no broker'})",
                "lookup",
                min(cluster.owned, default=""),
                cause=f"{record.state} {record.owner}",
            )
        elif record.state == "Owned" and record.owner not in holders.get(bundle, ()):
            if record.owner in cluster.owned:
                why = f"{record.owner} does not have it"
            elif record.owner in cluster.silent:
                why = f"{record.owner} does not answer"
            else:
                why = f"{record.owner} is no broker of the cluster any more"
            yield WatchdogFinding(
                "not-serving",
                bundle,
                cluster.now_ms,
                f"{bundle} is recorded to be {record.owner}'s, and {why}",
                "unload",
                record.owner if record.owner in cluster.owned else "",
                advice="unload it; a lookup gives it to another broker then",
                cause=record.owner,
            )


def by_cause(findings: Iterable[WatchdogFinding]) -> tuple[WatchdogFinding, ...]:
    """Merge findings of the same cause into one, which counts the bundles concerned."""
    groups: dict[str, list[WatchdogFinding]] = {}
    for each in findings:
        groups.setdefault(each.key, []).append(each)
    return tuple(_as_one(group) for group in groups.values())


def _as_one(group: list[WatchdogFinding]) -> WatchdogFinding:
    # A finding about a broker comes first, since it explains those about its bundles.
    first, *others = sorted(group, key=lambda each: "/" in each.subject)
    bundles = tuple(each.subject for each in group if "/" in each.subject)
    if not others:
        return replace(first, bundles=bundles)
    more = f"{len(others)} more bundles" if len(others) > 1 else "one more bundle"
    return replace(
        first,
        subject=first.cause,
        since_ms=min(each.since_ms for each in group),
        sentence=f"{first.sentence}; the same holds for {more}",
        bundles=bundles,
    )
