"""Logs in sentences what changes from one poll to the next."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from counterpoise.load.rows import BROKER, GAP, POLL, Column, ReportRows
from counterpoise.names.callbacks import SentenceSink

NAMED = 5
"""How many brokers a sentence names; the rest are counted."""


class PollLog:
    """Logs the brokers, their load managers, and which brokers stop or start answering."""

    def __init__(self, log: SentenceSink) -> None:
        self._log = log
        self._gaps: dict[str, str] = {}
        self._answered: frozenset[str] = frozenset()
        self._managers: dict[str, str] = {}

    def log_poll(self, rows: ReportRows) -> None:
        """Log how this poll differs from the one before."""
        of_brokers = rows["kind"] == BROKER
        brokers = frozenset(rows["broker"][of_brokers].tolist())
        if brokers - self._answered:
            self._log(f"load reports of {len(brokers)} brokers: {names(brokers)}")
        self._answered |= brokers
        self._log_managers(rows, of_brokers)
        silent = (rows["kind"] == GAP) | ((rows["kind"] == POLL) & (rows["note"] != ""))
        gaps = {
            str(broker) or "the cluster": str(note)
            for broker, note in zip(rows["broker"][silent], rows["note"][silent], strict=True)
        }
        # Grouped by reason, without the broker's name in it, so that many brokers make one line.
        alike: dict[str, list[str]] = defaultdict(list)
        for name in gaps.keys() - self._gaps.keys():
            alike[gaps[name].replace(name, "the broker")].append(name)
        for reason, those in sorted(alike.items()):
            self._log(f"no load report from {names(those)}: {reason}")
        back = self._gaps.keys() - gaps.keys()
        listed = brokers | {"the cluster"}
        if again := back & listed:
            self._log(f"{names(again)} answers again")
        if gone := back - listed:
            self._log(f"{names(gone)} has left")
        self._gaps = gaps

    def _log_managers(self, rows: ReportRows, of_brokers: Column) -> None:
        found = dict(zip(rows["broker"][of_brokers], rows["load_manager"][of_brokers], strict=True))
        new = {b: m for b, m in found.items() if m and self._managers.get(b) != m}
        if not new:
            return
        self._managers |= new
        for manager in sorted(set(new.values())):
            short = manager.rpartition(".")[2]
            way = "broker-stats/topics" if "Extensible" in short else "broker-stats/load-report"
            those = [broker for broker, each in new.items() if each == manager]
            self._log(f"{names(those)}: {short}, read from {way}")


def names(brokers: Collection[str]) -> str:
    """The first few names, and how many more there are, as text for a sentence."""
    listed: Iterable[str] = sorted(brokers)[:NAMED]
    more = f" and {len(brokers) - NAMED} more" if len(brokers) > NAMED else ""
    return ", ".join(listed) + more


def trouble(rows: ReportRows) -> str:
    """A sentence that says why a poll has no load report of any broker; empty if it has one."""
    if (rows["kind"] == BROKER).any():
        return ""
    if note := str(rows["note"][0]):
        return f"the cluster does not answer: {note}"
    silent = rows["kind"] == GAP
    if not silent.any():
        return "the cluster lists no broker"
    first, reason = rows["broker"][silent][0], rows["note"][silent][0]
    return f"none of {int(silent.sum())} brokers gives its load; {first} says: {reason}"
