"""One history: brokers, clients, faults, then calm; all from one seed."""

import asyncio
import contextvars
import gc
import logging
from asyncio import events
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupRedirect
from counterpoise.metadata import MetadataError
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.ownership.channel.transitions import Storage
from counterpoise.ownership.protocols import PROTOCOLS
from tests.sim import judges
from tests.sim.broker import Protocol, SimulatedBroker
from tests.sim.loop import SimulatedLoop, pass_virtual_time
from tests.sim.storage import Storage as Logs
from tests.sim.store import Network, Server
from tests.sim.story import Story
from tests.sim.topic import Topic

WATCH_S = 0.25
HOPS = 5


@dataclass(frozen=True)
class Plan:
    """How long and how bad."""

    brokers: int = 3
    bundles: int = 2
    bad_s: float = 12.0
    calm_s: float = 20.0
    faults: int = 6
    manager: str = MODULAR
    records_on: Storage = Storage.METADATA_STORE
    """Where the extensible manager's records of bundles are."""


PLANS: Final = {
    "modular": Plan(),
    "extensible": Plan(manager=EXTENSIBLE),
    "extensible-topic": Plan(manager=EXTENSIBLE, records_on=Storage.SYSTEM_TOPIC),
}
"""Each way in which brokers keep who owns what: locks, records in the store or on their topic."""


@dataclass(eq=False)
class Asked:
    """A question that a client put to a broker."""

    broker: SimulatedBroker
    what: str
    since: float
    waited_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.what} at {self.broker.id} since {self.since:.3f}"


class History:
    """Runs once; `run` returns what happened, or raises `InvariantViolation`."""

    def __init__(self, seed: int, plan: Plan, protocol: Protocol | None = None) -> None:
        self.rng, self.plan = Random(seed), plan
        self.story, self.loop, self.storage = Story(), SimulatedLoop(), Logs()
        self.network = Network()
        self.server = Server(self.loop, self.rng, self.network, self.story)
        self.protocol = protocol or PROTOCOLS[plan.manager]
        self.topic = Topic(self.server) if plan.records_on is Storage.SYSTEM_TOPIC else None
        step = 0x100000000 // plan.bundles
        self.bundles = [
            BundleName.parse(f"t/n/0x{at:08x}_0x{min(at + step, 0xFFFFFFFF):08x}")
            for at in range(0, step * plan.bundles, step)
        ]
        self.brokers: list[SimulatedBroker] = []
        self.claims = judges.Claims(self.network)
        self.records = judges.Records(plan.records_on)
        self.server.on_change = self.records.see
        self.complaints = judges.Complaints()
        self.calm = False
        self.last_used: dict[BundleName, float] = dict.fromkeys(self.bundles, 0.0)
        self._asked: list[Asked] = []

    def run(self) -> Story:
        """The whole history."""
        logger = logging.getLogger("counterpoise")
        before = logger.level, logger.propagate
        logger.addHandler(self.complaints)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        outside = events._get_running_loop()  # private: two loops of which one stands still
        events._set_running_loop(self.loop)
        gc.disable()
        try:
            contextvars.Context().run(self._run)
        finally:
            self.loop.end()
            gc.enable()
            events._set_running_loop(outside)
            logger.removeHandler(self.complaints)
            logger.level, logger.propagate = before
        return self.story

    def _run(self) -> None:
        for number in range(self.plan.brokers):
            self.start(f"b{number + 1}")
        for number, bundle in enumerate(self.bundles):
            self._client(bundle, 0.1 * number)
        bad_from = self.rng.uniform(0.5, 2.0)
        for _ in range(self.plan.faults):
            when = bad_from + self.rng.uniform(0, self.plan.bad_s)
            fault = self.rng.choices(*_faults_of(self.plan))[0]
            self.loop.call_at(when, fault, self, context=contextvars.Context())
        self._watch_until(bad_from + self.plan.bad_s)
        self._end_faults()
        calm_from = self.loop.time()
        self._watch_until(calm_from + self.plan.calm_s)
        for bundle in self.bundles:
            if self.last_used[bundle] < self.loop.time() - self.plan.calm_s + judges.USABLE_S:
                raise judges.InvariantViolation(
                    "owned again", f"{bundle} is out of use since {self.last_used[bundle]}"
                )
        living = [each for each in self.brokers if not each.machine.dead]
        judges.judge_rest(living)
        judges.judge_owners(living, self.bundles)
        judges.judge_leader(living)
        if self.topic is not None:
            judges.judge_readers(living, self.topic)

    def _watch_until(self, when: float) -> None:
        while self.loop.time() < when:
            self.loop.run_until(min(when, self.loop.time() + WATCH_S))
            self.claims.watch(self.loop.time(), self.server, self.brokers)
            self.records.judge()
            for judge, why in self.storage.wrong:
                raise judges.InvariantViolation(judge, why)
            self.complaints.judge()
            for asked in self._asked:
                if asked.waited_s > judges.LOOKUP_S:
                    raise judges.InvariantViolation("no lookup waits too long", str(asked))
            for failure in self.loop.failures():
                raise judges.InvariantViolation("nothing fails unseen", failure)

    # The cluster.

    def start(self, name: str) -> None:
        """Start a broker, unless one of this name runs."""
        if any(each.machine.name == name and not each.machine.dead for each in self.brokers):
            return
        rate = self.rng.choice((1.0, 1.0, 0.9, 1.1))
        broker = SimulatedBroker(name, rate, self.server, self.storage, self.protocol, self.topic)
        broker.drain_faults = lambda: (
            # The last one takes longer than a drain may.
            self.rng.choice((0.0, 0.0, 0.01, 0.01, 0.1, 0.1, 1.0, 1.0, 8.0)),
            not self.calm and self.rng.random() < 0.1,
        )
        broker.prepare_faults = lambda: (
            # An owner waits for half a second at most; the last one never ends.
            self.rng.choice((0.0, 0.0, 0.01, 0.01, 0.1, 0.1, 1.0, 1000.0)),
            self.rng.random() < 0.1,
        )
        self.brokers.append(broker)
        if self.topic is not None:
            self.topic.brokers = self.brokers
        broker.all = self.brokers
        broker.log("starts, its seconds are %s", rate)
        broker.start()

    def _end_faults(self) -> None:
        self.story.log(self.loop.time(), "the faults end")
        self.calm = True
        for broker in self.brokers:
            if broker.machine.frozen:
                self.loop.thaw(broker.machine)
            if not broker.machine.dead:
                broker.session.repair_all()
        for broker in [each for each in self.brokers if each.machine.dead]:
            self.start(broker.machine.name)

    # Its clients.

    def _client(self, bundle: BundleName, after_s: float) -> None:
        """A client that publishes to a bundle all the time, and looks it up when that fails."""
        no_machine = contextvars.Context()
        # Repeated requests must not prolong the time after which the broker itself gives up.
        patience_s = self.rng.choice(
            (judges.LOOKUP_S + 5, judges.LOOKUP_S + 5, self.rng.uniform(0.3, 1.5))
        )

        def use(at: SimulatedBroker | None) -> None:
            if at is not None and at.up and at.use(bundle):
                self.last_used[bundle] = self.loop.time()
                again(at)
            else:
                self.loop.create_task(find(), context=contextvars.Context())

        async def find() -> None:
            again(await self._find(bundle, patience_s))

        def again(at: SimulatedBroker | None) -> None:
            self.loop.call_later(self.rng.uniform(0.02, 0.3), use, at, context=no_machine)

        self.loop.call_later(after_s, again, None, context=no_machine)

    async def _find(self, bundle: BundleName, patience_s: float) -> SimulatedBroker | None:
        """Follow lookups as a client does."""
        broker, authoritative = self.rng.choice(self.brokers), False
        for _ in range(HOPS):
            if not broker.up:
                return None
            looking = broker.lookup(bundle, authoritative)
            answer = await self._ask(broker, looking, "lookup", patience_s)
            if answer is None:
                return None
            asked = next(
                (each for each in reversed(self.brokers) if each.id == answer.broker_id), None
            )
            if asked is None or not asked.up:
                return None
            if not isinstance(answer, LookupRedirect):
                attached = await self._ask(asked, asked.attach(bundle), "attach", patience_s)
                return asked if attached else None
            broker, authoritative = asked, answer.authoritative
        return None

    async def _ask(self, broker: SimulatedBroker, work: Any, what: str, patience_s: float) -> Any:
        """Ask a broker; a client loses its patience, and one in ten at once."""
        task = broker.run(_refused(work))
        asked = Asked(broker, what, self.loop.time())
        self._asked.append(asked)
        patience_s = 0.003 if self.rng.random() < 0.1 else patience_s
        while not task.done() and broker.up and asked.waited_s < patience_s:
            began = self.loop.time()
            await asyncio.wait([task], timeout=min(patience_s, 0.5))
            asked.waited_s += self.loop.time() - began
        self._asked.remove(asked)
        if not task.done():
            if not broker.up:
                await pass_virtual_time(self.rng.uniform(0, 2))
            task.cancel()
            return None
        return task.result()


async def _refused(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except (BrokerError, MetadataError):
        return None


# Faults. Each draws all it needs from the history's own randomness.


def _some(history: History, *, up: bool = True) -> SimulatedBroker | None:
    able = [each for each in history.brokers if each.up is up and not each.machine.dead]
    return history.rng.choice(able) if able else None


def _later(history: History, most_s: float, what: Callable[[], None]) -> None:
    when = history.loop.time() + history.rng.uniform(0.05, most_s)
    history.loop.call_at(when, what, context=contextvars.Context())


def unload(history: History) -> None:
    """Bundles change hands, to any broker or none."""
    for bundle in history.bundles:
        for broker in history.brokers:
            if broker.up and broker.ownership.serves(bundle):
                others = [each.id for each in history.brokers] + [None]
                destination = history.rng.choice(others)
                broker.log("is asked to release %s to %s", bundle, destination)
                task = broker.run(broker.ownership.release(bundle, destination))
                if history.rng.random() < 0.3:
                    _later(history, 0.02, task.cancel)


def order(history: History) -> None:
    """A broker has others release their bundles by record, whether or not it leads."""
    orderer = _some(history)
    for bundle in history.bundles:
        for broker in history.brokers:
            if orderer is not None and broker.up and broker.ownership.serves(bundle):
                others = [each.id for each in history.brokers] + [None]
                destination = history.rng.choice(others)
                orderer.log("orders %s to go from %s to %s", bundle, broker.id, destination)
                ordering = orderer.assigner.release(bundle, broker.id, destination)
                task = orderer.run(_refused(ordering))
                if history.rng.random() < 0.3:
                    _later(history, 0.02, task.cancel)


def assign_twice(history: History) -> None:
    """Two brokers assign a bundle at once, to any brokers, where it has no owner."""
    bundle = history.rng.choice(history.bundles)
    for _ in range(2):
        if (broker := _some(history)) is not None:
            chosen = history.rng.choice(history.brokers).id
            broker.log("assigns %s to %s", bundle, chosen)
            broker.run(_refused(broker.assigner.assign(bundle, chosen)))


def die_in_a_move(history: History) -> None:
    """An owner or its successor dies while a bundle changes hands."""
    bundle = history.rng.choice(history.bundles)
    living = [each for each in history.brokers if each.up]
    owner = next((each for each in living if each.ownership.serves(bundle)), None)
    successors = [each for each in living if each is not owner]
    if owner is None or not successors:
        return
    successor = history.rng.choice(successors)
    victim = history.rng.choice((owner, successor))
    owner.log("is asked to release %s to %s", bundle, successor.id)
    owner.run(owner.ownership.release(bundle, successor.id))

    def end() -> None:
        if not victim.machine.dead:
            victim.log("dies")
            victim.die()

    when = history.loop.time() + history.rng.choice((0.005, 0.02, 0.1, 0.6))
    history.loop.call_at(when, end, context=contextvars.Context())
    _later(history, 5.0, lambda: history.start(victim.machine.name))


def freeze(history: History) -> None:
    """A broker stops for a while, perhaps past its lease."""
    if (broker := _some(history)) is not None:
        broker.log("freezes")
        broker.machine.frozen = True
        broker.session.silent()

        def thaw() -> None:
            if broker.machine.frozen and not broker.machine.dead:
                broker.log("thaws")
                history.loop.thaw(broker.machine)
                broker.session.repair_all()

        _later(history, 8.0, thaw)


def cut(history: History) -> None:
    """A broker loses its way to the store, perhaps for longer than a session."""
    if (broker := _some(history)) is not None:
        broker.log("is cut off")
        broker.session.cut_off()
        _later(history, 8.0, broker.session.repair_all)


def store_away(history: History) -> None:
    """The store is away for every broker."""
    history.story.log(history.loop.time(), "the store goes away")
    cut_off = [each for each in history.brokers if not each.machine.dead]
    for broker in cut_off:
        broker.session.cut_off()

    def back() -> None:
        history.story.log(history.loop.time(), "the store is back")
        for broker in cut_off:
            broker.session.repair_all()

    _later(history, 8.0, back)


def lose_the_topic(history: History) -> None:
    """A broker's way to the records' topic ends, or hangs for a while."""
    broker = _some(history)
    if broker is None or broker.link is None:
        return
    if history.rng.random() < 0.5:
        broker.link.lose("its connection breaks")
    else:
        broker.log("hears nothing of the records' topic for a while")
        # What was held back until then stays so, even if a later fault is shorter.
        until = history.loop.time() + history.rng.uniform(0.1, 5.0)
        broker.link.hangs_until = max(broker.link.hangs_until, until)


def expire(history: History) -> None:
    """The store ends a session."""
    if (broker := _some(history)) is not None:
        broker.session.expire()


def flap(history: History) -> None:
    """The store ends a session, and the next ones soon."""
    if (broker := _some(history)) is not None:
        broker.session.expire()
        for _ in range(history.rng.randint(1, 4)):
            _later(history, 1.0, broker.session.expire)


def kill(history: History) -> None:
    """A broker dies, and may come again under its name."""
    living = [each for each in history.brokers if not each.machine.dead]
    if len(living) < 2:
        return
    broker = history.rng.choice(living)
    broker.log("dies")
    broker.die()
    if history.rng.random() < 0.7:
        _later(history, 5.0, lambda: history.start(broker.machine.name))


def split(history: History) -> None:
    """A bundle is replaced by its parts; here the next lookup finds no owner."""
    bundle = history.rng.choice(history.bundles)
    for broker in history.brokers:
        if broker.up and broker.ownership.serves(bundle):
            broker.log("replaces %s", bundle)
            broker.run(broker.give_to_parts(bundle))


def change_of_mind(history: History) -> None:
    """A broker acquires a bundle that another may own, and the client that asked for it is gone."""
    if (broker := _some(history)) is not None:
        bundle = history.rng.choice(history.bundles)
        task = broker.run(broker.ownership.acquire(bundle))
        _later(history, 0.02, task.cancel)


_FAULTS: dict[Callable[[History], None], int] = {
    unload: 5,
    die_in_a_move: 2,
    freeze: 2,
    cut: 2,
    store_away: 1,
    expire: 1,
    flap: 2,
    kill: 1,
    change_of_mind: 1,
    split: 1,
}
_WITH_RECORDS: dict[Callable[[History], None], int] = {order: 3, assign_twice: 2}


def _faults_of(plan: Plan) -> tuple[list[Callable[[History], None]], list[int]]:
    """The faults of a plan, and how often each comes compared with the others."""
    faults = dict(_FAULTS)
    if plan.manager == EXTENSIBLE:
        faults |= _WITH_RECORDS
    if plan.records_on is Storage.SYSTEM_TOPIC:
        faults[lose_the_topic] = 3
    return [*faults], [*faults.values()]
