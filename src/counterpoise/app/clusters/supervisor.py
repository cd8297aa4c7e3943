"""Restarts programs that end: one while this broker leads, and servers of a local cluster."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from counterpoise.app.clusters.processes import Child, ChildSpec
from counterpoise.names.callbacks import Clock

log = logging.getLogger(__name__)

BACK_OFF_FIRST_S = 1.0
BACK_OFF_MOST_S = 60.0
STEADY_AFTER_S = 60.0
"""Seconds after which a program counts as running steadily.

If it ends later than this, the back-off begins again at its first value."""


class LeaderProgram:
    """Runs a child process as long as this broker is the leader.

    If the child ends by itself it is restarted, after a pause that doubles from one second to a
    minute. Use it on the event loop's thread, which is the child's parent: the child ends with it.
    """

    def __init__(self, spec: Callable[[], ChildSpec], clock: Clock = time.monotonic) -> None:
        """``spec`` is called at each start, because ports may be known only then.

        ``clock``, in seconds, measures how long the child ran.
        """
        self._spec, self._clock = spec, clock
        self._leads = asyncio.Event()
        self._resigned = asyncio.Event()
        self._resigned.set()
        self._task: asyncio.Task[None] | None = None
        self._outdated = asyncio.Event()
        self.child: Child | None = None
        """The child; None while none runs."""

    def start(self) -> None:
        """Start supervising; the child starts when :meth:`on_leadership` reports leadership."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="leader program")

    def on_leadership(self, leads: bool) -> None:
        """Start or stop the child by the result of an election: whether this broker leads now."""
        if leads:
            self._resigned.clear()
            self._leads.set()
        else:
            self._leads.clear()
            self._resigned.set()

    def restart(self) -> None:
        """Restart the child, if one runs, so that a changed ``spec`` has an effect."""
        self._outdated.set()

    async def stop(self) -> None:
        """Stop the child, if one runs, and do not start it any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        back_off_s = BACK_OFF_FIRST_S
        while True:
            await self._leads.wait()
            began = self._clock()
            try:
                status = await self._run_once()
            except OSError as error:  # no memory, no process or no descriptor was left for it
                ended = f"cannot be started: {error}"
            else:
                if status is None:
                    back_off_s = BACK_OFF_FIRST_S
                    continue
                ended = f"ended with status {status}"
            if self._clock() - began > STEADY_AFTER_S:
                back_off_s = BACK_OFF_FIRST_S
            log.warning("the balancer %s; again in %g s", ended, back_off_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._resigned.wait(), back_off_s)
            back_off_s = min(2 * back_off_s, BACK_OFF_MOST_S)

    async def _run_once(self) -> int | None:
        """Run the child until it ends, and return its exit status.

        Returns None after stopping it because this broker leads no more, or `restart` was called.
        """
        self._outdated.clear()
        child = self.child = Child(self._spec())
        log.info("this broker leads: started %s, process %d", child.spec.name, child.pid)
        ended = asyncio.ensure_future(asyncio.to_thread(child.wait))
        over = [asyncio.ensure_future(each.wait()) for each in (self._resigned, self._outdated)]
        try:
            await asyncio.wait({ended, *over}, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else None
        finally:
            for each in over:
                each.cancel()
            self.child = None
            # Shielded from cancellation, so that a broker that stops waits until the child ended.
            await asyncio.shield(asyncio.to_thread(child.stop))
            await ended


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
