"""Two lock machines over one store whose sessions really end: every order of what may happen.

The store is a model of its own: nodes that go with their session, versions, a queue of what each
broker is to hear, and a session that is over some time before its owner hears so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from counterpoise.ownership import events
from counterpoise.ownership.lock.nodes import hand_over_of, lock_of
from counterpoise.ownership.lock.state import BundleLock, LockPhase
from counterpoise.ownership.lock.table import advance
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.records import NamespaceEphemeralData

BUNDLE = "t/n/0x00000000_0xffffffff"
LOCK = lock_of(BUNDLE)
IDS = ("b1:8080", "b2:8080")
PLACES_MAX = 200_000
"""A walk that goes farther does not end."""


@dataclass(frozen=True, slots=True)
class Node:
    """What stands at a path."""

    value: bytes
    version: int
    session: int


@dataclass(frozen=True, slots=True)
class Side:
    """A broker, and what is on its way to it."""

    state: BundleLock
    session: int
    lost: bool = False
    """Its session is over, and it has not heard so."""
    question: events.Command | None = None
    answer: object | None = None
    alarm: bool = False
    rung: bool = False
    """Whether it ever did, where all is `World.calm`: it may have waited too long for another."""
    inbox: tuple[events.NodeChanged, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """Everything there is."""

    sides: tuple[Side, Side]
    nodes: tuple[tuple[str, Node], ...]
    to_lose: frozenset[int]
    """Whose sessions may still end."""
    to_ask: tuple[tuple[int, object], ...]
    """Lookups and orders that are still to come: whom, and what."""
    sessions: int = 2

    @property
    def calm(self) -> bool:
        """Whether no session ever ends."""
        return not self.to_lose and self.sessions == 2 and not any(s.lost for s in self.sides)

    def node(self, path: str) -> Node | None:
        return dict(self.nodes).get(path)


def start(lookups: tuple[tuple[int, object], ...], losses: frozenset[int]) -> World:
    """The first broker owns the bundle."""
    first, second = (
        BundleLock(
            OwnershipOptions(
                NamespaceEphemeralData(f"pulsar://{each}", f"http://{each}"), successor_s=5
            ),
            BUNDLE,
        )
        for each in IDS
    )
    for record in (events.Acquire(), events.NodeCreated(0)):
        first, _ = advance(first, record)
    lock = Node(first.options.me.to_json(), 0, 0)
    return World((Side(first, 0), Side(second, 1)), ((LOCK, lock),), losses, lookups)


def fed(world: World, who: int, record: object) -> World:
    """A broker hears something."""
    side = world.sides[who]
    state, effects = advance(side.state, record)
    if state.failures > 1:
        # Failures count pauses only; a walk through all of them would not end.
        state = replace(state, failures=1)
    side = replace(side, state=state)
    for effect in effects:
        if isinstance(effect, events.StartTimer):
            side = replace(side, alarm=True)
        elif not isinstance(effect, events.Prepare):
            # A successor that is ready does what the alarm does, which may ring at any time.
            assert isinstance(effect, events.Command)
            assert side.question is None, f"{side.question} is open, and {effect} is put"
            side = replace(side, question=effect)
    return with_side(world, who, side)


def with_side(world: World, who: int, side: Side) -> World:
    sides = (side, world.sides[1]) if who == 0 else (world.sides[0], side)
    return World(sides, world.nodes, world.to_lose, world.to_ask, world.sessions)


def changed(world: World, path: str, node: Node | None) -> World:
    """A node is written or goes; every broker with a session is to hear it."""
    nodes = dict(world.nodes)
    if node is None:
        del nodes[path]
    else:
        nodes[path] = node
    change = events.NodeChanged(
        path, events.NodeChange.VANISHED if node is None else events.NodeChange.APPEARED
    )
    world = replace(world, nodes=tuple(sorted(nodes.items(), key=lambda item: item[0])))
    for who, side in enumerate(world.sides):
        if not side.lost:
            world = with_side(world, who, replace(side, inbox=(*side.inbox, change)))
    return world


def done(world: World, who: int) -> World:
    """The store does what a broker's question asks for; the answer is on its way."""
    side = world.sides[who]
    answer: object
    if side.lost and not isinstance(side.question, events.CloseTopics):
        return with_side(
            world, who, replace(side, answer=events.CommandFailed("the session is over"))
        )
    match side.question:
        case events.CreateNode(path, value):
            if world.node(path) is None:
                world, answer = (
                    changed(world, path, Node(value, 0, side.session)),
                    events.NodeCreated(0),
                )
            else:
                answer = events.NodeExists()
        case events.WriteNode(path, value):
            before = world.node(path)
            if before is not None and before.session != side.session:
                world, before = changed(world, path, None), None
            version = 0 if before is None else before.version + 1
            world, answer = (
                changed(world, path, Node(value, version, side.session)),
                events.NodeWritten(),
            )
        case events.ReadNode(path):
            node = world.node(path)
            answer = events.NodeFound(None)
            if node is not None:
                answer = events.NodeFound(node.value, node.version, node.session == side.session)
        case events.RemoveNode(path, version):
            node = world.node(path)
            if node is None:
                answer = events.NodeRemoved()
            elif node.version != version:
                answer = events.VersionDiffers()
            else:
                world, answer = changed(world, path, None), events.NodeRemoved()
        case events.CloseTopics():
            answer = events.TopicsClosed()
        case other:
            raise AssertionError(other)
    return with_side(world, who, replace(world.sides[who], answer=answer))


def steps(world: World) -> Iterator[tuple[str, World]]:
    """Whatever may happen next."""
    for number, (who, record) in enumerate(world.to_ask):
        rest = world.to_ask[:number] + world.to_ask[number + 1 :]
        yield f"{IDS[who]} <- {record}", fed(replace(world, to_ask=rest), who, record)
    for who, side in enumerate(world.sides):
        if side.answer is not None:
            heard = with_side(world, who, replace(side, question=None, answer=None))
            yield f"{IDS[who]} <- {side.answer}", fed(heard, who, side.answer)
        elif side.question is not None:
            yield f"{IDS[who]}: {side.question} is done", done(world, who)
        if side.inbox and not side.lost:
            news = side.inbox[0]
            heard = with_side(world, who, replace(side, inbox=side.inbox[1:]))
            known = not side.state.forgettable
            if known or (news.path != LOCK and news.change is events.NodeChange.APPEARED):
                yield f"{IDS[who]} <- {news}", fed(heard, who, news)
            else:
                yield f"{IDS[who]} does not heed {news}", heard
        if side.alarm:
            rung = with_side(world, who, replace(side, alarm=False, rung=world.calm))
            yield f"{IDS[who]} is woken", fed(rung, who, events.TimerFired())
        if side.lost:
            back = replace(side, lost=False, session=world.sessions)
            heard = replace(with_side(world, who, back), sessions=world.sessions + 1)
            if not side.state.forgettable:
                heard = fed(heard, who, events.SessionChanged())
            yield f"{IDS[who]} has another session", heard
        elif who in world.to_lose:
            gone = with_side(world, who, replace(side, lost=True, inbox=()))
            gone = replace(gone, to_lose=world.to_lose - {who})
            for path, node in world.nodes:
                if node.session == side.session:
                    gone = changed(gone, path, None)
            yield f"{IDS[who]} loses its session", gone


def check(world: World, settled: bool) -> str:
    """What must not be; empty when all is well."""
    serving = [side for side in world.sides if side.state.serves and not side.lost]
    if len(serving) > 1:
        return "two brokers serve it, and both have a session"
    if world.calm:
        for side, other in (world.sides, world.sides[::-1]):
            closed = not other.state.holds and other.state.phase is not LockPhase.CLOSING
            if side.state.serves and not side.rung and not closed:
                return f"{side.state.me} serves what {other.state.me} has not closed"
    lock = world.node(LOCK)
    for side in serving:
        to_hear = any(each.path == LOCK for each in side.inbox)
        if (lock is None or lock.session != side.session) and not to_hear:
            return f"{side.state.me} serves what is not its own, and will not hear so"
    if settled:
        if any(side.state.in_progress for side in world.sides):
            return "it waits for what never comes"
        if [hand_over_of(BUNDLE)] == [path for path, _ in world.nodes if path != LOCK]:
            return "an announcement is left behind"
        if lock is not None and not any(
            side.state.serves and side.session == lock.session for side in world.sides
        ):
            return "a lock is held, and no broker serves the bundle"
    return ""


def explored(begin: World) -> int:
    """Walk everywhere; returns to how many places."""
    reached: dict[World, tuple[World, str]] = {begin: (begin, "")}
    todo = [begin]
    while todo:
        world = todo.pop()
        nothing_left = True
        for what, after in steps(world):
            nothing_left &= after.to_lose != world.to_lose
            known = len(reached)
            reached.setdefault(after, (world, what))
            if len(reached) > known:
                todo.append(after)
        assert len(reached) < PLACES_MAX, history(reached, world)
        if wrong := check(world, nothing_left):
            pytest.fail(f"{wrong}\n{history(reached, world)}")
    return len(reached)


def history(reached: dict[World, tuple[World, str]], world: World) -> str:
    lines = [*(str(side) for side in world.sides), str(world.nodes)]
    while reached[world][1]:
        world, what = reached[world]
        lines.insert(0, what)
    return "\n".join(lines)


MOVE: tuple[tuple[int, object], ...] = ((0, events.Release(IDS[1])),)
TAKEN: tuple[tuple[int, object], ...] = ((1, events.Acquire()),)


# Seconds of computing, with an end of its own: how long that takes is the machine's affair.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("asked", "losses", "places"),
    [
        pytest.param(TAKEN, {0, 1}, 100, id="a lookup elsewhere, and both may lose their sessions"),
        pytest.param(MOVE, set(), 100, id="a move"),
        pytest.param(MOVE, {0}, 1000, id="a move whose owner loses its session"),
        pytest.param(MOVE, {1}, 1000, id="a move whose successor loses its session"),
        pytest.param(((0, events.Release(None)), *TAKEN), set(), 100, id="released, and looked up"),
    ],
)
def test_in_every_order_one_broker_serves_at_most(
    asked: tuple[tuple[int, object], ...], losses: set[int], places: int
) -> None:
    assert explored(start(asked, frozenset(losses))) > places
