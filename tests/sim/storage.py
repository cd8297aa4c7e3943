"""The logs of a history: how many messages they have, and who may write to them."""

from dataclasses import dataclass, replace

from counterpoise.names.bundle import BundleName


@dataclass
class Log:
    """One bundle's log, as it is or as a broker believes it to be."""

    epoch: int = 0
    stored: int = 0
    """Messages that a producer has a receipt for."""
    cursor: int = 0
    """Of these, how many the consumer is known to be done with."""
    closing: bool = False
    is_released: bool = False
    """Whether the broker that opened it last has closed it in order."""

    def __str__(self) -> str:
        return f"epoch {self.epoch}, {self.stored} stored, {self.cursor} acknowledged"


class Storage:
    """What all brokers share. The broker that opened a log last may write to it.

    It is its own judge: a broker that goes on where others had been before would store messages in
    the place of theirs, or deliver again what a consumer was done with when the log was closed.
    """

    def __init__(self) -> None:
        self._logs: dict[BundleName, Log] = {}
        self.wrong: list[tuple[str, str]] = []
        """The violations: the judge, and why."""

    def _log(self, bundle: BundleName) -> Log:
        found = self._logs.get(bundle)
        if found is None:
            found = self._logs[bundle] = Log()
        return found

    def look(self, bundle: BundleName) -> Log:
        """Read it without fencing its owner."""
        return replace(self._log(bundle))

    def open(self, bundle: BundleName) -> Log:
        """Fence its former owner, then read it."""
        log = self._log(bundle)
        log.epoch += 1
        log.is_released = False
        return replace(log)

    def is_released(self, bundle: BundleName) -> bool:
        """Whether the broker that opened it last has closed it in order."""
        return self._log(bundle).is_released

    def judge_open(self, bundle: BundleName, log: Log) -> None:
        """A broker goes on from what it believes to have read."""
        there = self._log(bundle)
        if log.epoch == there.epoch and log.cursor < there.cursor:
            why = f"{bundle} goes on at {log.cursor}, it was closed at {there.cursor}"
            self.wrong.append(("nothing acknowledged comes again", why))

    def holds(self, bundle: BundleName, log: Log) -> bool:
        """Whether no other broker has opened it since."""
        return log.epoch == self._log(bundle).epoch

    def append(self, bundle: BundleName, log: Log) -> None:
        """Store one more message behind those that its owner knows; its consumer takes it."""
        there = self._log(bundle)
        if log.stored != there.stored:
            why = f"{bundle}: message {log.stored + 1} of {there.stored} is written over"
            self.wrong.append(("nothing acknowledged is lost", why))
        log.stored += 1
        log.cursor = log.stored
        there.stored = log.stored

    def close(self, bundle: BundleName, log: Log) -> None:
        """Close it in order: the cursor is saved."""
        if self.holds(bundle, log):
            there = self._log(bundle)
            there.cursor, there.is_released = log.cursor, True
