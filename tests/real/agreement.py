"""How far a recorded run's own leader and this program agree: round by round, counted.

    python -m tests.real.agreement HISTORY BROKER_LOG CONF [--shift SECONDS] [--each]

HISTORY is what `counterpoise watch` kept of a real Pulsar whose own shedder (modular manager) was
on; BROKER_LOG is the leader's, which names each unload; CONF its broker.conf. At each of the
leader's rounds our strategy is asked about what had been reported until then, with what the leader
had moved before marked as it marks it. Rounds in which the leader moved nothing count as well.

Where a bundle went, or that it stayed with its broker, is held against what `as_leader.py` chooses
by what had been reported at that moment, and by what the leader chose for lookups since its round
began (its log names them): a round goes on for a second, clients that are sent away in it look
their topics up, and what they are answered counts at once. When they come is chance; how many
destinations it decided is said. Where Pulsar itself chooses by chance, what counts is whether its
choice is among those that it may have chosen by our account; how many brokers those are is said.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from counterpoise.app.conf import read_conf, settings_from
from counterpoise.app.strategies import find_placement, strategy_from
from counterpoise.decide.balancing.as_leader import select_as_leader
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.decide.balancing.round import BalancingStrategy, left_alone
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, answering_brokers
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import COLUMNS, ReportRows
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.tables.data_files import read_file
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import REPORTS, columns_of

UNLOAD = re.compile(r"Unloading bundle: (\S+) from broker (\S+)(?: to dest broker (\S+))?")
STAYED = re.compile(
    r"The destination broker (\S+) is the same as the current owner broker for Bundle (\S+)"
)
CONSIDERED = re.compile(r"brokers being considered for assignment of (\S+)")
ROUND_MS = 60_000


class Unload(NamedTuple):
    """A bundle that the leader's shedder chose; its destination is its source where it stayed."""

    at_ms: int
    bundle: str
    source: str
    destination: str

    @property
    def moved(self) -> bool:
        """Whether it was unloaded at all."""
        return self.source != self.destination


def day_of(at_ms: int) -> int:
    """When the day began, UTC."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return int(at.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1000


def line_ms(line: str, day_ms: int) -> int:
    """When a line of a broker's log was written."""
    hours, minutes, seconds, ms = (int(line[i:j]) for i, j in ((0, 2), (3, 5), (6, 8), (9, 12)))
    return day_ms + ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms


def unloads(log: Path, day_ms: int) -> list[Unload]:
    """What the leader's log says, on the day that begins then."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if match := UNLOAD.search(line):
            found.append(Unload(line_ms(line, day_ms), match[1], match[2], match[3] or ""))
        elif match := STAYED.search(line):
            found.append(Unload(line_ms(line, day_ms), match[2], match[1], match[1]))
    return found


def lookups(log: Path, day_ms: int) -> list[tuple[int, str]]:
    """When the leader chose a broker for a bundle that was looked up, by its log."""
    considered: list[tuple[int, str]] = []
    for line in log.read_text(errors="replace").splitlines():
        if match := CONSIDERED.search(line):
            considered.append((line_ms(line, day_ms), match[1]))
        elif match := UNLOAD.search(line) or STAYED.search(line):
            # The last time that it was considered was the shedder's own doing.
            bundle = match[1] if UNLOAD.search(line) else match[2]
            last = max(i for i, (_, each) in enumerate(considered) if each == bundle)
            del considered[last]
    return considered


def rounds(
    ordered: list[Unload], first_ms: int, last_ms: int
) -> Iterator[tuple[int, list[Unload]]]:
    """The leader's rounds, a minute apart, each with what it unloaded."""
    inside = [each for each in ordered if first_ms < each.at_ms < last_ms]
    at_ms = inside[0].at_ms
    while at_ms - ROUND_MS > first_ms:
        at_ms -= ROUND_MS
    while at_ms < last_ms:
        until = at_ms + ROUND_MS
        # A round's first unload shows its time best: timers are late on a busy machine.
        mine = [
            each for each in inside if at_ms - ROUND_MS // 2 <= each.at_ms < until - ROUND_MS // 2
        ]
        if mine:
            at_ms = mine[0].at_ms
            until = at_ms + ROUND_MS
        yield at_ms, mine
        at_ms = until


class Recorded:
    """A history that is read on and on."""

    def __init__(self, uri: str) -> None:
        reader = TablesReader(open_location(uri))
        self._polls = [
            ReportRows(columns_of(read_file(reader.location, each), tuple(COLUMNS)))
            for each in reader.files(REPORTS)
        ]
        self.first_ms, self.last_ms = (int(self._polls[i]["poll_id"][0]) for i in (0, -1))
        self._place = 0
        self.state = FoldState.empty()

    def until(self, at_ms: float) -> FoldState:
        """What was known then."""
        for _ in self.each_until(at_ms):
            pass
        return self.state

    def each_until(self, at_ms: float) -> Iterator[tuple[int, FoldState]]:
        """The polls that have not been read, up to then: when each was, and what was known."""
        while self._place < len(self._polls) and self._polls[self._place]["poll_id"][0] < at_ms:
            self.state = fold(self.state, Batch.of(self._polls[self._place]))
            self._place += 1
            yield int(self._polls[self._place - 1]["poll_id"][0]), self.state


class Places:
    """Where the leader puts bundles in one round, by our account.

    What it gives to a broker because of a lookup counts as that broker's from then on.
    """

    def __init__(self, strategy: BalancingStrategy, looked_up: Iterable[tuple[int, str]]) -> None:
        self._strategy = strategy
        self._looked_up = sorted(looked_up)[::-1]
        self._given: list[tuple[str, str]] = []

    def may(self, each: Unload, state: FoldState) -> tuple[str, ...]:
        """The brokers that it may have chosen for a bundle that is shed."""
        while self._looked_up and self._looked_up[-1][0] <= each.at_ms:
            at_ms, bundle = self._looked_up.pop()
            for broker in self.among(Unload(at_ms, bundle, "", ""), state)[:1]:
                self._given.append((bundle, broker))
        return self.among(each, state)

    def among(self, each: Unload, state: FoldState, *, gave: bool = True) -> tuple[str, ...]:
        """The same without looking at lookups, or as if nothing had been given."""
        strategy, view = self._strategy, cluster_view(state, each.at_ms)
        given = self._given if gave else []
        view = view.with_preallocated(
            [sum(_rate(view, b) for b, to in given if to == broker) for broker in view.brokers]
        )
        chooser = Chooser(strategy.placement, view, strategy.placement_options, None)
        decision = Decision(DecisionKind.UNLOAD, each.bundle, each.source, None, "recorded", "")
        filters = strategy.as_leader or FilterOptions()
        memory, mine = strategy.placement.initial_memory(), namespace_of(each.bundle)
        more = Counter(broker for bundle, broker in given if namespace_of(bundle) == mine)
        chosen = select_as_leader(decision, view.brokers, chooser, memory, filters, more)
        return chosen.placement.admissible


def _rate(view: ClusterView, bundle: str) -> float:
    """A bundle's messages/s in and out, averaged over long."""
    row, average = view.bundle_index(bundle), view.bundle.long
    return 0.0 if row is None else float(average.rate_in[row] + average.rate_out[row])


def compare(
    history: str, log: Path, conf_file: str, *, shift_s: float = 0.0, each_one: bool = False
) -> None:
    """Count, and say it."""
    conf = read_conf(conf_file)
    placement = conf.values.get("loadBalancerLoadPlacementStrategy", "LeastLongTermMessageRate")
    filters = settings_from(FilterOptions, conf)
    by = replace(strategy_from(conf, placement=placement), as_leader=filters)
    recorded = Recorded(history)
    ordered = unloads(log, day_of(recorded.first_ms))
    if not ordered:
        raise SystemExit(f"{log}: this broker unloaded nothing: is it the leader's log?")
    looked_up = lookups(log, day_of(recorded.first_ms))
    memory, counts, went = RoundMemory(), Counter[str](), Counter[str]()
    for at_ms, mine in rounds(ordered, recorded.first_ms, recorded.last_ms):
        state = recorded.until(at_ms - shift_s * 1000)
        recent = left_alone(at_ms, memory, by.balance)
        seen_then = ClusterSnapshot(cluster_view(state, at_ms), answering_brokers(state))
        ours_by = replace(by, as_leader=None, placement=find_placement("LeastLongTermMessageRate"))
        made = ours_by.plan(seen_then, memory)
        ours, theirs = {move.bundle for move in made.moves}, {each.bundle for each in mine}
        counts += Counter(rounds=1, leader=len(theirs), ours=len(ours), same=len(theirs & ours),
                          same_rounds=int(theirs == ours))  # fmt: skip
        places = Places(by, (one for one in looked_up if at_ms <= one[0] < at_ms + ROUND_MS / 2))
        for each in mine:
            seen = recorded.until(each.at_ms - shift_s * 1000)
            may = places.may(each, seen)
            kind = "only one" if len(may) == 1 else f"one of {len(may)}"
            went[f"{kind}: {'agree' if each.destination in may else 'differ'}"] += 1
            counts["lookups"] += may != places.among(each, seen, gave=False)
            if each_one:
                print("   ", each.bundle, each.source, "->", each.destination, "ours", may)
        when = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")
        print(f"{when} leader {len(theirs)}, ours {len(ours)}, the same {len(theirs & ours)}")
        moved = {each.bundle: each.at_ms for each in mine if each.moved}
        kept = made.memory
        memory = RoundMemory(kept.shedder, kept.placement, {**recent, **moved}, at_ms)
    print(
        f"{counts['rounds']} rounds, {counts['same_rounds']} with the same bundles; bundles: "
        f"leader {counts['leader']}, ours {counts['ours']}, the same {counts['same']}\n"
        f"destinations, where our account leaves {dict(sorted(went.items()))}; "
        f"{counts['lookups']} of them decided by lookups during the round"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("history")
    parser.add_argument("log", type=Path)
    parser.add_argument("conf")
    parser.add_argument("--shift", type=float, default=0.0, help="ask so much before the unload")
    parser.add_argument("--each", action="store_true", help="say each destination")
    args = parser.parse_args()
    compare(args.history, args.log, args.conf, shift_s=args.shift, each_one=args.each)


if __name__ == "__main__":
    main()
