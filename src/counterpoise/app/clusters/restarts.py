"""When to restart servers that ended."""

from counterpoise.app.clusters.supervisor import BACK_OFF_FIRST_S, BACK_OFF_MOST_S, STEADY_AFTER_S
from counterpoise.names.callbacks import Clock


class RestartSchedule:
    """When servers that ended are to be restarted, by name.

    A server that ran steadily is restarted at once; any other after a pause that doubles with each
    start that did not last.
    """

    def __init__(self, clock: Clock) -> None:
        """``clock`` returns seconds, by which pauses are measured."""
        self._clock = clock
        self._due: dict[str, float] = {}
        self._pause_s: dict[str, float] = {}
        self._begun: dict[str, float] = {}

    def started(self, name: str) -> None:
        """Note that the server is running from now on."""
        self._begun[name] = self._clock()

    def ended(self, name: str) -> float:
        """Note that the server ended, or did not start; returns the seconds until its restart."""
        now, begun = self._clock(), self._begun.pop(name, None)
        pause = self._pause_s.get(name, 0.0)
        if begun is not None and now - begun > STEADY_AFTER_S:
            pause = 0.0
        self._pause_s[name] = min(max(2 * pause, BACK_OFF_FIRST_S), BACK_OFF_MOST_S)
        self._due[name] = now + pause
        return pause

    def wait_s(self) -> float | None:
        """Seconds until the next restart; None if there is none."""
        return max(0.0, min(self._due.values()) - self._clock()) if self._due else None

    def take_due(self) -> list[str]:
        """The servers that are to be restarted now; they are removed from the schedule."""
        now = self._clock()
        due = [name for name, at in self._due.items() if at <= now]
        for name in due:
            del self._due[name]
        return due
