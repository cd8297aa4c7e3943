"""Logs changes of bundles from poll to poll, in sentences."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from counterpoise.decide.balancing.moves import imbalance
from counterpoise.load.rows import BROKER, BUNDLE, ReportRows
from counterpoise.names.callbacks import SentenceSink
from counterpoise.names.units import bytes_text

NAMED = 3
"""How many bundles a sentence names; the rest are counted."""
STEP = 0.1
"""The imbalance (largest ÷ mean) is logged again when it has changed by at least this."""


class Changes:
    """Logs which bundles appeared, disappeared or moved since the last poll, and changes of the
    imbalance.

    A bundle that two brokers report belongs to the one whose report is newer.
    """

    def __init__(self, log: SentenceSink) -> None:
        self._log = log
        self._owners: dict[str, str] = {}
        self.loads: dict[str, float] = {}
        """Bytes/s by broker at the last poll."""
        self._imbalance: float | None = None

    @property
    def bundles(self) -> int:
        """The number of bundles at the last poll."""
        return len(self._owners)

    @property
    def imbalance(self) -> float:
        """Largest broker's bytes/s ÷ their mean - 1, at the last poll."""
        return imbalance(list(self.loads.values()))

    def log_poll(self, rows: ReportRows) -> None:
        """Log how this poll differs from the one before."""
        brokers = rows["kind"] == BROKER
        if not brokers.any():
            return
        self._take_owners(rows)
        through = rows["msg_throughput_in"] + rows["msg_throughput_out"]
        named = zip(rows["broker"][brokers].tolist(), through[brokers].tolist(), strict=True)
        listed = set(rows["broker"].tolist())
        self.loads = {b: load for b, load in self.loads.items() if b in listed} | dict(named)
        now = self.imbalance
        if self._imbalance is None or abs(now - self._imbalance) >= STEP:
            before = "" if self._imbalance is None else f" (it was {self._imbalance:.2f})"
            most = max(self.loads, key=lambda each: (self.loads[each], each))
            self._log(
                f"imbalance {now:.2f}{before}: {most} carries {bytes_text(self.loads[most])}, "
                f"the mean is {bytes_text(sum(self.loads.values()) / len(self.loads))}"
            )
            self._imbalance = now

    def _take_owners(self, rows: ReportRows) -> None:
        fresh = set(rows["broker"][(rows["kind"] == BROKER) & rows["fresh"]].tolist())
        if not fresh:
            return
        those = np.flatnonzero(rows["kind"] == BUNDLE)
        reported = dict(
            zip(rows["bundle"][those].tolist(), rows["broker"][those].tolist(), strict=True)
        )
        first = not self._owners
        before = self._owners
        kept = {bundle: broker for bundle, broker in before.items() if broker not in fresh}
        self._owners = kept | reported
        if first:
            return
        moved = {b: to for b, to in reported.items() if b in before and before[b] != to}
        if moved:
            ways = Counter((before[bundle], to) for bundle, to in moved.items())
            ways_text = ", ".join(f"{n} {a} -> {b}" for (a, b), n in ways.most_common(NAMED))
            self._log(f"bundles moved: {ways_text} ({_some(moved)})")
        if came := reported.keys() - before.keys():
            self._log(f"{_count(len(came))} newly reported: {_some(came)}")
        if gone := before.keys() - self._owners.keys():
            self._log(f"{_count(len(gone))} reported by no broker any more: {_some(gone)}")


def _some(bundles: "set[str] | Mapping[str, str]") -> str:
    more = f" and {len(bundles) - NAMED} more" if len(bundles) > NAMED else ""
    return ", ".join(sorted(bundles)[:NAMED]) + more


def _count(number: int) -> str:
    return "one bundle is" if number == 1 else f"{number:,} bundles are"
