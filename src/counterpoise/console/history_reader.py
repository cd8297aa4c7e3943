"""A balancer's rounds and recorded loads, read from its history."""

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.decide.balancing.moves import MoveOutcome
from counterpoise.load.rows import BROKER, BUNDLE, RATES
from counterpoise.picture import round_summary
from counterpoise.picture.recorded_load import RecordedLoad, of_broker, of_bundle
from counterpoise.picture.treemap import TileKind
from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables.control import Control, Wish, read_control, write_control
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal, outcome_of
from counterpoise.pipeline.tables.reports import read_reports
from counterpoise.pipeline.tables.schema import JournalKind, columns_of

LOADS = ["poll_id", "broker", *RATES]


class HistoryReader:
    """Reads a balancer's rounds and recorded loads from its history."""

    def __init__(self, reader: TablesReader) -> None:
        self._reader = reader
        self._location = reader.location
        self._journal = Journal(reader)
        self._rounds: dict[int, round_summary.RoundSummary] = {}
        self._open: set[int] = set()
        """The poll ids of rounds that are read again, since not all of their moves have ended."""

    def read(self, after_ms: int) -> tuple[tuple[round_summary.RoundSummary, ...], str]:
        """Read the rounds decided after `after_ms` (ms since 1970).

        Returns them and those that former calls read, oldest first, and a sentence: the order that
        forbids moves, or the history's address. Raises `HistoryFaultError`.
        """
        self._read_new(after_ms)
        control = read_control(self._location)
        summaries: tuple[round_summary.RoundSummary, ...] = ()
        for at_ms in sorted(self._rounds):
            summaries = round_summary.with_round(summaries, self._rounds[at_ms])
        last_ms = max(self._rounds, default=0)
        state = control.in_force(last_ms) or f"The balancer's history is {self._location.address}."
        return summaries, state

    def recorded(self, what: TileKind, key: str, after_ms: int) -> RecordedLoad:
        """Return the recorded load of the bundle or broker `key` after `after_ms` (ms since 1970).

        Raises `HistoryFaultError`.
        """
        name, kind = what.value, BUNDLE if what is TileKind.BUNDLE else BROKER
        columns = list(dict.fromkeys((*LOADS, name)))
        reports = read_reports(self._reader, after_ms, EVER, columns, [kind])
        parts = [part.filter(pc.equal(part.column(name), key)) for part in reports]
        if not parts:
            return RecordedLoad()
        rows = pa.concat_tables(parts)
        of = columns_of(rows, LOADS)
        flows = of["msg_throughput_in"] + of["msg_throughput_out"]
        messages = of["msg_rate_in"] + of["msg_rate_out"]
        if what is TileKind.BUNDLE:
            return of_bundle(key, of["poll_id"], of["broker"].tolist(), flows, messages)
        return of_broker(of["poll_id"], flows, messages)

    def say(self, wish: str, now_ms: int, why: str) -> None:
        """Write an order to the balancer, ``go``, ``pause`` or ``stop``, and the reason for it.

        Raises `HistoryFaultError`.
        """
        write_control(self._location, Control(Wish(wish), now_ms, why))

    def _read_new(self, after_ms: int) -> None:
        rounds = self._journal.parts(JournalKind.ROUND, after=after_ms)
        polls = sorted(poll for part in rounds for poll in part.column("poll_id").to_pylist())
        due = [
            each
            for each in polls[-round_summary.ROUNDS_MOST :]
            if each not in self._rounds or each in self._open
        ]
        if not due:
            return
        outcomes = self._outcomes(due[0])
        for poll in due:
            made = self._journal.round(poll)
            if made is None:
                continue
            self._rounds[poll] = round_summary.summarize_round(made, outcomes)
            over = all(move.id in outcomes for move in made.moves) or poll < polls[-1]
            (self._open.discard if over else self._open.add)(poll)
        for poll in sorted(self._rounds)[: -round_summary.ROUNDS_MOST]:
            del self._rounds[poll]

    def _outcomes(self, first_poll: int) -> dict[str, MoveOutcome]:
        rows = self._journal.rows(JournalKind.OUTCOME, after=first_poll - 1)
        return {row["id"]: outcome_of(row) for row in rows}
