"""Reads what a plan is computed from, of a cluster or a history: loads, owners, past moves."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

import aiohttp
import numpy as np
import orjson

from counterpoise.decide.advice.plan import MoveTime, Redelivery
from counterpoise.decide.advice.splits import SplitEvidence, hot_bundles
from counterpoise.decide.balancing.moves import MoveStatus, RoundMemory
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, newest_poll, snapshot_of
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.load.fields import LoadDataError
from counterpoise.load.fold import Batch, FoldState, fold, merged, without_brokers
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.extensible import fetch_topics
from counterpoise.pipeline.collect.poll_log import names, trouble
from counterpoise.pipeline.collect.settings import sheds_by_itself
from counterpoise.pipeline.collect.topic_loads import topic_loads
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.collect.words import error_text
from counterpoise.pipeline.drive.action_trail import ActionKind, OperatorAction
from counterpoise.pipeline.policies import CannotSeeError, RoundPolicies
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal, unacknowledged_of
from counterpoise.pipeline.tables.reports import newest_poll as newest_landed
from counterpoise.pipeline.tables.reports import next_slice, read_shard
from counterpoise.pipeline.tables.states import current_states, read_state

TopicLoads = Mapping[str, Mapping[str, TopicLoad]]
"""By bundle and then by topic: the topic's load."""


async def topics_of(
    admin: Admin, addresses: Mapping[str, str], bundles: Mapping[str, str]
) -> tuple[TopicLoads, tuple[str, ...]]:
    """The loads of the topics of some bundles, and a sentence for each broker that did not answer.

    `bundles` has the owner of each bundle, `addresses` the admin URL of each broker.
    """
    by_broker: dict[str, set[str]] = {}
    for bundle, broker in bundles.items():
        if broker in addresses:
            by_broker.setdefault(broker, set()).add(bundle)
    answers = await asyncio.gather(
        *(_asked(admin, addresses[broker], by_broker[broker]) for broker in sorted(by_broker))
    )
    found: dict[str, Mapping[str, TopicLoad]] = {}
    trouble = []
    for broker, answer in zip(sorted(by_broker), answers, strict=True):
        if isinstance(answer, str):
            trouble.append(f"the topics of {broker} are not known: {answer}")
        else:
            found |= answer
    return found, tuple(trouble)


async def _asked(admin: Admin, address: str, bundles: Collection[str]) -> TopicLoads | str:
    try:
        body = await fetch_topics(admin, address)
        return await asyncio.to_thread(topic_loads, body, bundles)
    except (*UNREADABLE, LoadDataError, orjson.JSONDecodeError) as error:
        return error_text(error)


HOUR_MS = 3_600_000
DEFAULT_MOVE_S = 1.0
NO_POLICIES = (
    "isolation policies and anti-affinity groups are not modelled: a history has none, and a move "
    "may be to a broker that must not have the bundle (--admin-url asks the cluster)"
)


class NothingToAdviseOnError(ExplainedError):
    """No plan can be made, since load reports or policies are missing; the message says why."""


@dataclass(frozen=True, slots=True)
class AdviceInputs:
    """What a plan is computed from.

    That is a snapshot of the cluster, what the balancer remembers of its rounds, and the loads of
    topics, by which splits are advised.
    """

    snapshot: ClusterSnapshot
    memory: RoundMemory
    splits: SplitEvidence
    notes: tuple[str, ...] = ()
    """Sentences for the operator on what the plan leaves out or does not know."""


@dataclass(frozen=True, slots=True)
class LookOptions:
    """How often a live cluster is polled before a plan is made; which brokers get no bundles."""

    looks: int = 1
    """How many polls the plan is based on."""
    every_s: float = 5.0
    splitting: SplitOptions = field(default_factory=SplitOptions)
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """The brokers that get no bundles, each with the reason."""


async def inputs_from_cluster(
    session: aiohttp.ClientSession,
    addresses: Sequence[str],
    clock_ms: MillisecondClock,
    reader: TablesReader | None,
    options: LookOptions,
) -> AdviceInputs:
    """Poll the cluster, and fold its reports into the averages of a history.

    `reader` reads the history; None if there is none. Raises `NothingToAdviseOnError` if no broker
    reports its load, or if policies cannot be read.
    """
    state, memory = FoldState.empty(), RoundMemory()
    after = 0
    if reader is not None:
        state = await asyncio.to_thread(state_of, reader)
        after = newest_landed(reader)
    reason = ""
    with closing(Collector(session, addresses, clock_ms, after_poll=after)) as collector:
        for number in range(options.looks):
            if number:
                await asyncio.sleep(options.every_s)
            rows = await collector.poll()
            reason = trouble(rows)
            state = fold(state, Batch.of(rows))
    if reason:
        raise NothingToAdviseOnError(reason)
    state = without_brokers(state, options.cordoned)
    if reader is not None:
        memory = Journal(reader).memory_before(newest_poll(state))
    admin = Admin(session, AdminOptions())
    try:
        policies = await RoundPolicies(session, addresses).read(state)
    except CannotSeeError as error:
        raise NothingToAdviseOnError(f"nothing is planned without policies: {error}") from None
    looked = _looked(state, memory, ", ".join(addresses))
    hot = hot_bundles(looked.splits, options.splitting)
    brokers = state.brokers["broker"].tolist()
    owners = _owners(state)
    topics, unknown = await topics_of(
        admin,
        {broker: web_address(broker, addresses) for broker in brokers},
        {bundle: owners[bundle] for bundle in hot if bundle in owners},
    )
    sheds = await sheds_by_itself(admin, addresses)
    notes = (*looked.notes, *unknown, *([sheds] if sheds else []))
    notes = (*_cordons(options), *notes)
    return replace(
        looked,
        snapshot=replace(looked.snapshot, policies=policies),
        splits=replace(looked.splits, topics=topics),
        notes=notes,
    )


def inputs_from_history(reader: TablesReader, options: LookOptions) -> AdviceInputs:
    """Read a plan's inputs as of the history's last poll; raises `NothingToAdviseOnError` if the
    history has no load report.
    """
    state, address = state_of(reader), reader.location.address
    state = without_brokers(state, options.cordoned)
    memory = Journal(reader).memory_before(newest_poll(state) + 1)
    if not len(state.brokers["broker"]):
        raise NothingToAdviseOnError(
            f"{address} has no load of any broker: counterpoise watch records one"
        )
    looked = _looked(state, memory, address)
    return replace(looked, notes=(*_cordons(options), *looked.notes, NO_POLICIES))


def _cordons(options: LookOptions) -> list[str]:
    return [f"{each} is cordoned: {why}" for each, why in sorted(options.cordoned.items())]


def state_of(reader: TablesReader) -> FoldState:
    """The averages of load at the newest poll: the last committed ones, with later polls added.

    Without a committed state (`counterpoise watch` stores none), the averages of the last hour.
    """
    state, after = FoldState.empty(), max(0, newest_landed(reader) - HOUR_MS)
    if kept := current_states(reader):
        parts = [read_state(reader.location, file) for file in kept.files]
        state, after = merged(parts), kept.up_to
    while part := next_slice(reader, after):
        state = fold(state, read_shard(reader.location, part, shard=0, shards=1))
        after = part.up_to
    return state


def move_time(
    rows: Iterable[Mapping[str, Any]],
    given_s: float | None = None,
    *,
    at_once: int = 1,
    by_hand: Iterable[OperatorAction] = (),
) -> MoveTime:
    """The expected duration of a move, from the history's outcomes (`rows`), or `given_s` seconds.

    Concurrent moves take longer than single ones. With `at_once` above 1 only recorded moves that
    overlapped another one count, else only those that did not; if there are none, all count. If no
    round moved anything, the moves of the operators' actions ``by_hand`` count.
    """
    if given_s is not None:
        known = move_time(rows, at_once=at_once, by_hand=by_hand).redelivery
        return MoveTime(given_s, given_s, "as given by --move-seconds", given_s, known)
    seen = [
        _SeenMove(row["started_at_ms"], row["ended_at_ms"], unacknowledged_of(row))
        for row in rows
        if row["status"] == MoveStatus.MOVED
    ]
    if not seen and (made := _made_by_hand(by_hand)):
        return _figures(made, " by hand seen here")
    if not seen:
        basis = "no move of this cluster is recorded: a second is taken for granted"
        return MoveTime(DEFAULT_MOVE_S, DEFAULT_MOVE_S, basis, DEFAULT_MOVE_S)
    return _figures(*_of_a_kind(seen, beside=at_once > 1))


def move_time_by_hand(
    actions: Iterable[OperatorAction], kind: ActionKind, otherwise: MoveTime
) -> MoveTime:
    """The expected duration of a move in a drain or a refill (`kind`), from those in `actions`.

    Such a move takes longer than one in a round: a drain moves many bundles of one broker, and a
    refill moves bundles to a broker that may just have started. Without any in `actions`, return
    `otherwise`.
    """
    seen = _made_by_hand(each for each in actions if each.kind is kind)
    if not seen:
        return otherwise
    found = _figures(seen, f" of a {kind.value} seen here")
    if any(each.unacknowledged_s is not None for each in seen):
        return found
    return replace(found, redelivery=otherwise.redelivery)


class _SeenMove(NamedTuple):
    """A move that was carried out: its times in milliseconds since 1970, and its redeliveries.

    ``unacknowledged_s`` has the messages that were redelivered ÷ the rate of delivery.
    """

    started_ms: int
    ended_ms: int
    unacknowledged_s: float | None


def _made_by_hand(actions: Iterable[OperatorAction]) -> list[_SeenMove]:
    return [
        _SeenMove(each.started_ms, each.ended_ms, each.unacknowledged_s)
        for action in actions
        for each in action.moves
        if each.moved
    ]


def _figures(seen: Sequence[_SeenMove], kind: str) -> MoveTime:
    """The durations of these moves, and how many seconds' worth of messages they redelivered.

    `kind` is the end of the phrase that says what was measured.
    """
    took = [each.ended_ms - each.started_ms for each in seen]
    waiting = [each.unacknowledged_s for each in seen if each.unacknowledged_s is not None]
    again = Redelivery()
    if waiting:
        again = Redelivery(min(waiting), max(waiting), f"measured at {_counted(waiting)}{kind}")
    return MoveTime(
        median(took) / 1000,
        max(took) / 1000,
        f"the median of {_counted(took)}{kind}",
        min(took) / 1000,
        again,
    )


def _counted(moves: Sequence[float]) -> str:
    return f"{len(moves)} moves" if len(moves) > 1 else "one move"


def _of_a_kind(seen: Sequence[_SeenMove], *, beside: bool) -> tuple[list[_SeenMove], str]:
    """Return the moves that overlapped another one (`beside`), or else those that did not.

    If there are none, return all moves. The second value describes the returned moves.
    """
    ordered, overlaps = sorted(seen, key=lambda each: each[:2]), set[int]()
    latest = holder = 0
    for number, (start, end, _) in enumerate(ordered):
        if start < latest:
            overlaps |= {number, holder}
        if end > latest:
            latest, holder = end, number
    chosen = [each for number, each in enumerate(ordered) if (number in overlaps) is beside]
    if chosen:
        return chosen, f" seen here, {'beside others' if beside else 'one at a time'}"
    return ordered, " seen here"


def _looked(state: FoldState, memory: RoundMemory, source: str) -> AdviceInputs:
    connections = connections_of(state)
    snapshot = replace(snapshot_of(state), connections=connections, source=source)
    notes = []
    if silent := sorted({*state.brokers["broker"].tolist()} - {*snapshot.answering}):
        notes.append(f"nothing is given to {names(silent)}: no answer at the last look")
    return AdviceInputs(snapshot, memory, SplitEvidence(snapshot.view, connections), tuple(notes))


def connections_of(state: FoldState) -> dict[str, int]:
    """The number of producers and consumers of each bundle, by its last report."""
    columns = (state.served[name].tolist() for name in ("bundle", "producers", "consumers"))
    return {bundle: made + taken for bundle, made, taken in zip(*columns, strict=True)}


def _owners(state: FoldState) -> dict[str, str]:
    served = state.served
    order = np.argsort(served["poll_id"], kind="stable")
    names, brokers = served["bundle"][order].tolist(), served["broker"][order].tolist()
    return dict(zip(names, brokers, strict=True))
