"""How far a recorded run of the extensible manager's leader and this program agree, counted.

    python -m tests.real.agreement_by_stores HISTORY STORES_FILE BROKER_LOG CONF

At each round of the leader, whose log in debug mode names them, our TransferShedder is asked twice,
with what the leader had moved before marked as it marks it. By the load stores as the leader had
them (`stores.py` listened): that holds the strategy against Pulsar's. And by the history that
`counterpoise watch` kept, from which the stores have to be made again
(`load/store_of_reports.py`): that holds backtests, and the rounds of `balance`, against it.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from counterpoise.app.conf import read_conf
from counterpoise.app.strategies import as_pulsar
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, answering_brokers
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.store_of_reports import Ema, averaged
from counterpoise.load.store_view import LoadStoreView
from tests.real.agreement import Recorded, day_of, line_ms
from tests.real.stores import Stores, records

ROUND = re.compile(r"Available brokers: \[(.*)\]")
SKIPPED = re.compile(r"Skipped the load stat update\. Reason:(\w+)")
UNLOADING = re.compile(
    r"Unloading bundle: Unload\[sourceBroker=([^,]+), serviceUnit=([^,]+), "
    r"destBroker=Optional\[([^\]]+)\]"
)

Moves = frozenset[tuple[str, str, str]]
"""Source, bundle, destination."""


class Made(NamedTuple):
    """A round of the leader."""

    at_ms: int
    brokers: tuple[str, ...]
    moves: Moves
    skipped: str


def rounds(log: Path, day_ms: int) -> Iterator[Made]:
    """The leader's, by its log of the day that begins then."""
    at_ms, brokers, skipped = 0, tuple[str, ...](), ""
    moves = set[tuple[str, str, str]]()
    for line in log.read_text(errors="replace").splitlines():
        if match := ROUND.search(line):
            if at_ms:
                yield Made(at_ms, brokers, frozenset(moves), skipped)
            at_ms, brokers, skipped = line_ms(line, day_ms), tuple(match[1].split(", ")), ""
            moves = set()
        elif match := SKIPPED.search(line):
            skipped = match[1]
        elif match := UNLOADING.search(line):
            moves.add((match[1], match[2], match[3]))
    if at_ms:
        yield Made(at_ms, brokers, frozenset(moves), skipped)


@dataclass
class Marks:
    """What the leader remembers of its moves."""

    grace_ms: int
    bundles: dict[str, int] = field(default_factory=dict)
    brokers: dict[str, int] = field(default_factory=dict)

    def at(self, now_ms: int) -> Mapping[str, int]:
        """The bundles that it leaves alone."""
        return {b: at for b, at in self.bundles.items() if at >= now_ms - self.grace_ms}

    def mark(self, made: Made) -> None:
        for source, bundle, _ in made.moves:
            self.bundles[bundle] = self.brokers[source] = made.at_ms


class ByStores:
    """Asks the strategy by what the leader had."""

    def __init__(self, stores: Stores, strategy: BalancingStrategy) -> None:
        self._stores = stores
        self._strategy = strategy
        self._memory = strategy.shedder.initial_memory()

    def ask(self, made: Made, marks: Marks) -> Moves:
        """What it would have moved."""
        self._stores.until(made.at_ms)
        view = LoadStoreView.of(
            made.at_ms, self._stores.loads, self._stores.top, available=made.brokers,
            recently_unloaded=marks.at(made.at_ms), unloaded_brokers=marks.brokers,
        )  # fmt: skip
        shedder, options = self._strategy.shedder, self._strategy.options
        plan = shedder.plan(view, self._memory, options, made.at_ms, Random(0))
        self._memory = plan.memory
        for broker in plan.memory.cooled:
            marks.brokers.pop(broker, None)
        return frozenset((d.source, d.bundle, d.destination or "") for d in plan.decisions)


class ByHistory:
    """Asks the whole program by what was recorded; averages go on at each poll."""

    def __init__(self, recorded: Recorded, strategy: BalancingStrategy) -> None:
        self._recorded = recorded
        self._strategy = strategy
        self._loads: Mapping[str, Ema] = {}
        self._memory = RoundMemory()

    def ask(self, made: Made, marks: Marks) -> Moves:
        """What it would have moved."""
        own = self._strategy.placement_options
        weights = own if isinstance(own, PlacementOptions) else PlacementOptions()
        for at_ms, state in self._recorded.each_until(made.at_ms):
            view = cluster_view(state, at_ms)
            self._loads = averaged(view, weights.weights.extensible, self._loads)
        state, recent = self._recorded.state, marks.at(made.at_ms)
        memory = replace(
            self._memory,
            loads=self._loads,
            unloaded_brokers=marks.brokers,
            last_move_ms=max(marks.brokers.values(), default=0),
        )
        seen = ClusterSnapshot(
            cluster_view(state, made.at_ms), answering_brokers(state), state=state
        )
        found = self._strategy.plan(seen, replace(memory, recently_unloaded=recent))
        self._memory = found.memory
        if not found.moves and made.moves:
            loads = {broker: round(ema.load, 3) for broker, ema in found.memory.loads.items()}
            print("   ours does nothing by", loads, *(each.sentence for each in found.rejections))
        return frozenset((m.source, m.bundle, m.destination) for m in found.moves)


def compare(history: str, stores_file: Path, log: Path, conf_file: str) -> None:
    """Count, and say it."""
    conf = read_conf(conf_file)
    strategy = as_pulsar(conf)
    minutes = int(conf.values.get("loadBalancerSheddingGracePeriodMinutes", 30))
    first = min(each.at_ms for each in records(stores_file))
    recorded = Recorded(history)
    asked: dict[str, Any] = {
        "what the leader had": ByStores(Stores(records(stores_file)), strategy),
        "what watch recorded": ByHistory(recorded, strategy),
    }
    marks = {name: Marks(minutes * 60_000) for name in asked}
    counts = {name: Counter[str]() for name in asked}
    for made in rounds(log, day_of(first)):
        if not recorded.first_ms < made.at_ms < recorded.last_ms:
            continue
        when = datetime.fromtimestamp(made.at_ms / 1000, UTC).strftime("%H:%M:%S")
        said = [f"leader {len(made.moves)}{' ' + made.skipped if made.skipped else ''}"]
        for name, each in asked.items():
            ours = each.ask(made, marks[name])
            marks[name].mark(made)
            same = {b for _, b, _ in ours} & {b for _, b, _ in made.moves}
            counts[name] += Counter(
                rounds=1, same_rounds=int({b for _, b, _ in ours} == {b for _, b, _ in made.moves}),
                leader=len(made.moves), ours=len(ours), same=len(same),
                to=len(ours & made.moves),
            )  # fmt: skip
            said.append(f"by {name} {len(ours)}, the same {len(ours & made.moves)}")
        print(when, "; ".join(said))
    for name, each in counts.items():
        print(
            f"by {name}: {each['rounds']} rounds, {each['same_rounds']} with the same bundles; "
            f"bundles: leader {each['leader']}, ours {each['ours']}, the same {each['same']}, to "
            f"the same broker {each['to']}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("history")
    parser.add_argument("stores_file", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("conf")
    args = parser.parse_args()
    compare(args.history, args.stores_file, args.log, args.conf)


if __name__ == "__main__":
    main()
