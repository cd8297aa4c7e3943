"""Simulated time, bookies, connections that break, and a metadata store, from one seed.

A connection delivers requests and answers in order. When it breaks, answers on their way are lost,
and of the requests on their way the first few arrive all the same: at once, or long after those of
the connection that follows it, as with a bookie that hung. An answer may come twice.
"""

import heapq
import itertools
from collections.abc import Generator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from counterpoise.bookkeeper.bookie_frames import BookieAnswer, BookieRequest
from counterpoise.bookkeeper.client.metadata_changes import VersionedMetadata
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from tests.bookkeeper.fake_bookie import ADD, OK, READ, RECOVERS, BookieDisk, parsed

QUICK_S = 0.02
SLOW_S = 1.5
SLOW_SHARE = 0.3
LATE_S = 6.0
TWICE_SHARE = 0.02
LOST_SHARE = 0.1
READ_ONLY = 105
MetadataSteps = Generator[VersionedMetadata | None, VersionedMetadata | None, VersionedMetadata]


class Violation(AssertionError):
    """An invariant does not hold."""


class Event(Protocol):
    """What happens at a time."""

    def __call__(self) -> None: ...


class Clock:
    """Events in the order of their time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.steps = 0
        self.story: list[str] = []
        self._count = itertools.count()
        self._events: list[tuple[float, int, Event]] = []

    def at(self, when: float, event: Event) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._count), event))

    def after(self, seconds: float, event: Event) -> None:
        self.at(self.now + seconds, event)

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            self.steps += 1
            event()
        self.now = max(self.now, until)

    def delay(self) -> float:
        return self.rng.uniform(0, SLOW_S if self.rng.random() < SLOW_SHARE else QUICK_S)

    def log(self, text: str) -> None:
        self.story.append(f"{self.now:8.3f} {text}")


class SimulatedBookie:
    """A bookie that may be down, or read-only for a while; its disk outlives that."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.read_only = False
        self.disk = BookieDisk()

    def apply(self, request: BookieRequest) -> BookieAnswer:
        what = parsed(request.frame[4:])
        if self.read_only and what.opcode == ADD and not what.flags & RECOVERS:
            return BookieAnswer(ADD, READ_ONLY, what.ledger, what.entry)
        code, stored = self.disk.apply(what), b""
        if code == OK and what.opcode == READ:
            code, stored = self.disk.read(what.ledger, what.entry)
        return BookieAnswer(what.opcode, code, what.ledger, what.entry, stored)


class LinkClient(Protocol):
    """The client's end of a connection."""

    name: str

    def answered(self, bookie: str, answer: BookieAnswer) -> None: ...

    def unanswered(self, bookie: str, request: BookieRequest) -> None: ...

    def when_awake(self, event: Event) -> None:
        """Run now, or when the client's machine goes on."""


class Link:
    """The connections of one client with one bookie, one after the other."""

    def __init__(self, clock: Clock, client: LinkClient, bookie: SimulatedBookie) -> None:
        self.bookie = bookie
        self._clock = clock
        self._client = client
        self._connection = 0
        self._numbers = itertools.count()
        self._on_the_way: dict[int, BookieRequest] = {}
        self._in_flight: dict[int, BookieRequest] = {}
        self._arrived = self._answered = 0.0

    def send(self, request: BookieRequest) -> None:
        clock, number = self._clock, next(self._numbers)
        self._in_flight[number] = request
        if not self.bookie.up:
            clock.after(clock.delay(), lambda: self._refuse(number))
            return
        self._on_the_way[number] = request
        connection = self._connection
        self._arrived = max(self._arrived, clock.now + clock.delay())
        clock.at(self._arrived, lambda: self._arrive(connection, number))

    def break_off(self) -> None:
        """The connection breaks; both ends notice."""
        clock, rng = self._clock, self._clock.rng
        self._connection += 1
        self._arrived = self._answered = clock.now
        waiting, self._on_the_way = list(self._on_the_way.values()), {}
        for request in waiting[: rng.randint(0, len(waiting))]:
            late = rng.choice((0.0, rng.uniform(0, LATE_S)))
            clock.after(late, lambda request=request: self._arrive_unanswered(request))
        failed, self._in_flight = list(self._in_flight.values()), {}
        for request in failed:
            clock.log(f"{self._client.name}: {self.bookie.name} fails {_named(request)}")
            self._client.when_awake(
                lambda request=request: self._client.unanswered(self.bookie.name, request)
            )

    def _refuse(self, number: int) -> None:
        request = self._in_flight.pop(number, None)
        if request is not None:
            self._client.when_awake(lambda: self._client.unanswered(self.bookie.name, request))

    def _arrive_unanswered(self, request: BookieRequest) -> None:
        if self.bookie.up:
            answer = self.bookie.apply(request)
            self._clock.log(f"{self.bookie.name}: late {_named(request)}: {answer.code}")

    def _arrive(self, connection: int, number: int) -> None:
        request = self._on_the_way.pop(number, None) if connection == self._connection else None
        if request is None:
            return
        clock = self._clock
        answer = self.bookie.apply(request)
        clock.log(f"{self.bookie.name}: {_named(request)} of {self._client.name}: {answer.code}")
        self._answered = max(self._answered, clock.now + clock.delay())
        clock.at(self._answered, lambda: self._answer(connection, number, answer))

    def _answer(self, connection: int, number: int, answer: BookieAnswer) -> None:
        if connection != self._connection or self._in_flight.pop(number, None) is None:
            return
        for _ in range(2 if self._clock.rng.random() < TWICE_SHARE else 1):
            self._client.when_awake(lambda: self._client.answered(self.bookie.name, answer))


def _named(request: BookieRequest) -> str:
    flags = int.from_bytes(request.frame[6:8], "big")
    kind = "read" if request.operation == READ else "add"
    return f"{kind} {request.entry} (flags {flags})"


class MetadataClient(Protocol):
    """What is notified of how a change of the metadata ended."""

    name: str

    def changed(self, known: VersionedMetadata) -> None: ...

    def refused(self, error: BookKeeperError) -> None: ...

    def when_awake(self, event: Event) -> None: ...


@dataclass
class StoredMetadata:
    """The ledger's node, and what may never happen to it."""

    clock: Clock
    metadata: LedgerMetadata
    version: int = 0

    def begin(self, client: MetadataClient, steps: MetadataSteps) -> None:
        """Run the steps of a change."""
        self._go_on(client, steps, None)

    def _ask(
        self, client: MetadataClient, steps: MetadataSteps, wanted: VersionedMetadata | None
    ) -> None:
        clock = self.clock
        answered = clock.now + clock.delay() + clock.delay()
        lost = clock.rng.random() < LOST_SHARE
        if wanted is not None and lost:
            # Carried out, perhaps after the client asked what became of it.
            clock.after(clock.delay(), lambda: self._write(client, wanted) and None)
            clock.at(answered, lambda: client.when_awake(lambda: self._go_on(client, steps, None)))
            return

        def carry_out() -> None:
            if wanted is None:
                result = VersionedMetadata(self.metadata, self.version)
            else:
                result = self._write(client, wanted)
            clock.after(
                clock.delay(), lambda: client.when_awake(lambda: self._go_on(client, steps, result))
            )

        clock.after(clock.delay(), carry_out)

    def _go_on(
        self, client: MetadataClient, steps: MetadataSteps, answer: VersionedMetadata | None
    ) -> None:
        try:
            wanted = steps.send(answer)
        except StopIteration as done:
            client.changed(done.value)
        except BookKeeperError as error:
            client.refused(error)
        else:
            self._ask(client, steps, wanted)

    def _write(self, client: MetadataClient, wanted: VersionedMetadata) -> VersionedMetadata | None:
        if wanted.version not in (self.version, None):
            return None
        if self.metadata.closed and wanted.metadata != self.metadata:
            raise Violation(f"{client.name} changes a closed ledger to {wanted.metadata}")
        self.metadata = wanted.metadata
        self.version += 1
        segments = [(each.first, each.ensemble) for each in self.metadata.segments]
        self.clock.log(
            f"{client.name} writes the metadata: {self.metadata.state.name}, "
            f"{self.metadata.last_entry}, {segments}"
        )
        return VersionedMetadata(self.metadata, self.version)
