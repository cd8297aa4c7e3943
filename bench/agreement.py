"""How far a recorded run's own leader and this program agree: round by round, counted.

    python bench/agreement.py HISTORY BROKER_LOG CONF [--shift SECONDS]

HISTORY is what `counterpoise watch` kept of a real Pulsar whose own shedder (modular manager) was
on; BROKER_LOG is the leader's, which names each unload; CONF its broker.conf. At each of the
leader's rounds our strategy is asked about what had been reported until then, with what the leader
had moved before marked as it marks it. Rounds in which the leader moved nothing count as well.

The leader's shedder may choose a bundle that its placement then leaves where it is; the log names
these, too. What is compared is what the two shedders chose.
"""

import argparse
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from counterpoise.app.conf import read_conf
from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.decide.balancing.round import answering_brokers, decide_on, left_alone
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import COLUMNS, ReportRows
from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.rows_codec import columns_of
from counterpoise.pipeline.history.store import open_store

UNLOAD = re.compile(
    r"(\d\d):(\d\d):(\d\d)\.(\d{3}) .*Unloading bundle: (\S+) from broker (\S+)"
    r"(?: to dest broker (\S+))?"
)
STAYED = re.compile(
    r"(\d\d):(\d\d):(\d\d)\.(\d{3}) .*The destination broker (\S+) is the same as the current "
    r"owner broker for Bundle (\S+)"
)
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


def unloads(log: Path, day_ms: int) -> list[Unload]:
    """What the leader's log says, on the day that begins then."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if match := UNLOAD.search(line):
            hours, minutes, seconds, ms = (int(text) for text in match.groups()[:4])
            at_ms = day_ms + ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms
            found.append(Unload(at_ms, match[5], match[6], match[7] or ""))
        elif match := STAYED.search(line):
            hours, minutes, seconds, ms = (int(text) for text in match.groups()[:4])
            at_ms = day_ms + ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms
            found.append(Unload(at_ms, match[6], match[5], match[5]))
    return found


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
        # A round's first unload tells its time best: timers are late on a busy machine.
        mine = [
            each for each in inside if at_ms - ROUND_MS // 2 <= each.at_ms < until - ROUND_MS // 2
        ]
        if mine:
            at_ms = mine[0].at_ms
            until = at_ms + ROUND_MS
        yield at_ms, mine
        at_ms = until


def main() -> None:
    """Count, and say it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("history")
    parser.add_argument("log", type=Path)
    parser.add_argument("conf")
    parser.add_argument("--shift", type=float, default=0.0, help="ask so much before the unload")
    parser.add_argument("--placement", default="LeastLongTermMessageRate")
    args = parser.parse_args()
    conf = read_conf(args.conf)
    strategy = strategy_from(conf, placement=args.placement)
    polls = [
        ReportRows(columns_of(table, tuple(COLUMNS)))
        for table in read_table_parts(open_store(args.history), "reports")
    ]
    first_ms, last_ms = int(polls[0]["poll_id"][0]), int(polls[-1]["poll_id"][0])
    day = datetime.fromtimestamp(first_ms / 1000, UTC).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    ordered = unloads(args.log, int(day.timestamp()) * 1000)
    state, place = FoldState.empty(), 0
    memory = RoundMemory()
    counts = dict.fromkeys(
        ("rounds", "acted_both", "idle_both", "only_leader", "only_ours", "source"), 0
    )
    theirs_all = ours_all = both_all = destinations = moved = 0
    for at_ms, mine in rounds(ordered, first_ms, last_ms):
        until = at_ms - args.shift * 1000
        while place < len(polls) and int(polls[place]["poll_id"][0]) < until:
            state = fold(state, Batch.of(polls[place]))
            place += 1
        if not place:
            continue
        recent = left_alone(at_ms, memory, strategy.balance)
        view = cluster_view(state, at_ms, recent)
        made = decide_on(view, answering_brokers(state), recent, memory, strategy)
        theirs, ours = {each.bundle for each in mine}, {move.bundle for move in made.moves}
        counts["rounds"] += 1
        counts["acted_both"] += bool(theirs and ours)
        counts["idle_both"] += not theirs and not ours
        counts["only_leader"] += bool(theirs and not ours)
        counts["only_ours"] += bool(ours and not theirs)
        sources = {each.source for each in mine}, {move.source for move in made.moves}
        counts["source"] += bool(theirs and ours and sources[0] == sources[1])
        to = {each.bundle: each.destination for each in mine if each.moved}
        destinations += sum(to.get(move.bundle) == move.destination for move in made.moves)
        moved += len(to)
        theirs_all, ours_all = theirs_all + len(theirs), ours_all + len(ours)
        both_all += len(theirs & ours)
        when = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")
        print(f"{when} leader {len(theirs)}, ours {len(ours)}, the same {len(theirs & ours)}")
        memory = RoundMemory(
            made.memory.shedder,
            made.memory.placement,
            {**recent, **{each.bundle: each.at_ms for each in mine if each.moved}},
            at_ms,
        )
    print(
        f"{counts}\nbundles: leader {theirs_all}, ours {ours_all}, the same {both_all}, "
        f"of {moved} moved to the same broker {destinations}"
    )


if __name__ == "__main__":
    main()
