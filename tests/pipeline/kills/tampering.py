"""Lives on a history that was corrupted: a sentence, and a way on that works."""

import asyncio
import re
import shlex
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import FOLD_STATE, REPORTS
from tests.pipeline.command import Command
from tests.pipeline.histories import reader_of
from tests.pipeline.kills import corruption
from tests.pipeline.kills.campaign import EXIT_PUT_RIGHT, Campaign
from tests.pipeline.s3_server import Bucket

MOVED, NOTHING = " moved ", "nothing to move"
LONGEST = 700
"""Characters of a sentence that an operator still reads."""
AN_HOUR_S = 3600.0
AWAY_S = 25.0

_REMEDY = re.compile(r"`counterpoise (history repair) ([^`]+)`")
_DETAILS = re.compile(r"\(details: ([^)]+)\)")


@dataclass
class Tampering:
    """What may be done to the history of a campaign."""

    campaign: Campaign
    disk: Path | None = None
    """Where the history is, when that is a disk of its own."""
    endpoint: Bucket | None = None

    @property
    def kinds(self) -> Mapping[str, Callable[[str], Awaitable[None]]]:
        """All that can be done to this one, by what it is called."""
        found: dict[str, Callable[[str], Awaitable[None]]] = dict.fromkeys(
            corruption.DAMAGES, self.damaged
        )
        found |= {
            "moved elsewhere": self.moved,
            "a second balancer": self.second,
            "the clock set back": self.clock_back,
        }
        if self.endpoint is not None:
            return found | {"no writing": self.refused, "the store away": self.away}
        if self.disk is not None:
            found |= {"the disk full": self.full, "the disk read-only": self.read_only}
        return found

    async def do(self, kind: str) -> None:
        """Do one of them, and see that the balancer goes on."""
        with self.campaign.shifting():
            await self.kinds[kind](kind)
        await asyncio.to_thread(self.campaign.judge)

    async def damaged(self, kind: str) -> None:
        """A data file is not what it was: `repair` sets it aside, whether it was missed or not."""
        campaign = self.campaign
        reader = reader_of(campaign.history)
        # A poll that is gone, once folded, is missed as soon as the fold begins again.
        table = REPORTS if "poll" in kind or campaign.story.lost else FOLD_STATE
        if files := reader.files(table)[-3:]:
            file = campaign.rng.choice(files)
            campaign.said.append(f"-- {kind}: {file.name}")
            corruption.DAMAGES[kind](reader.location, file, campaign.rng)
            if table == REPORTS:
                campaign.story.losses.append(frozenset(range(file.first_poll, file.last_poll + 1)))
        run, status = await self._lives()
        if status:
            assert status == EXIT_PUT_RIGHT, run.text
            await self._repaired(self._sentence(run))
        elif await self._command("history", "check", campaign.history):
            await self._repaired(f"`counterpoise history repair {campaign.history}`")
        await campaign.life("-")

    async def moved(self, kind: str) -> None:
        """The history is elsewhere, and nothing where it was."""
        campaign = self.campaign
        uri, question, more = campaign.history.partition("?")
        to = re.sub(r"(-\d+)?$", f"-{len(campaign.said)}", uri) + question + more
        await asyncio.to_thread(corruption.copied, campaign.history, to)
        campaign.said.append(f"-- {kind}: {to}")
        campaign.history = to
        await campaign.life("-")

    async def second(self, kind: str) -> None:
        """The second is refused, and the first does not notice."""
        first = await self.campaign.start()
        try:
            await first.until(lambda line: MOVED in line)
            second = await self.campaign.start(waits=False)
            assert await second.end() == EXIT_PUT_RIGHT, second.text
            assert "another balancer" in self._sentence(second)
            await first.until(lambda line: MOVED in line)
            await self._ends_well(first)
        finally:
            await self._said(kind, first)

    async def clock_back(self, kind: str) -> None:
        """Nothing is decided until it is right again, and that is said."""
        run = await self.campaign.start(clock_s=-AN_HOUR_S)
        try:
            said = await run.until(lambda line: "clock" in line)
            assert "behind the newest poll" in said, said
            assert open_location(self.campaign.history).address in said, said
            await self._ends_well(run)
            assert MOVED not in run.text.partition("clock is")[2], run.text
        finally:
            await self._said(kind, run)
        await self.campaign.life("-")

    async def refused(self, kind: str) -> None:
        """The bucket takes nothing that we write, for a while."""
        assert self.endpoint is not None
        self.endpoint.refuse = "/"
        try:
            run, status = await self._lives(kind)
        finally:
            self.endpoint.refuse = ""
        assert status == EXIT_PUT_RIGHT, run.text
        assert "cannot be written" in self._sentence(run)
        await self.campaign.life("-")

    async def away(self, kind: str) -> None:
        """The store answers nothing for a while: the balancer goes on by itself."""
        assert self.endpoint is not None
        run = await self.campaign.start()
        try:
            await run.until(lambda line: MOVED in line)
            self.endpoint.away = True
            await asyncio.sleep(AWAY_S)  # how long the store is away is the fault itself
            self.endpoint.away = False
            await run.until(lambda line: MOVED in line)
            await self._ends_well(run)
        finally:
            self.endpoint.away = False
            await self._said(kind, run)

    async def full(self, kind: str) -> None:
        """No room is left."""
        assert self.disk is not None
        await self._on_a_disk(kind, corruption.full(self.disk), "the disk is full: make room")

    async def read_only(self, kind: str) -> None:
        """It takes nothing."""
        assert self.disk is not None
        await self._on_a_disk(kind, corruption.read_only(self.disk), "it is read-only: mount it")

    async def _on_a_disk(
        self, kind: str, meanwhile: AbstractContextManager[None], says: str
    ) -> None:
        with meanwhile:
            run, status = await self._lives(kind)
        assert status == EXIT_PUT_RIGHT, run.text
        assert says in self._sentence(run)
        await self.campaign.life("-")

    async def _lives(self, kind: str = "lives on that") -> tuple[Command, int]:
        """Until it has moved something, or ends by itself; gives how."""
        run = await self.campaign.start()
        try:
            await run.until(lambda line: MOVED in line)
            run.process.send_signal(signal.SIGTERM)
            await run.end()
        except AssertionError:
            assert run.process.returncode is not None
        finally:
            await self._said(kind, run)
        return run, run.process.returncode or 0

    async def _ends_well(self, run: Command) -> None:
        run.process.send_signal(signal.SIGTERM)
        assert await run.end() == 0, run.text

    async def _said(self, kind: str, *runs: Command) -> None:
        for run in runs:
            await run.kill()
            self.campaign.said += [f"-- {kind}", *run.said]
            assert "Traceback" not in run.text, run.text

    def _sentence(self, run: Command) -> str:
        """The only one that says why it ended; its details are in a file."""
        said = [line for line in run.said if line.startswith("counterpoise:")]
        assert len(said) == 1, run.text
        assert len(said[0]) < LONGEST, said
        assert "internal error" not in said[0], run.text
        if details := _DETAILS.search(said[0]):
            file = Path(details.group(1))
            assert "Traceback" in file.read_text(), said
            file.unlink()
        return said[0]

    async def _repaired(self, sentence: str) -> None:
        """Do what a sentence says; then everything can be read."""
        remedy = _REMEDY.search(sentence)
        assert remedy is not None, sentence
        uri = remedy.group(2)
        # Who reads a sentence does not read keys: the URI of the history has them.
        assert uri == self.campaign.history or "://" in uri, sentence
        words = [*remedy.group(1).split(), *shlex.split(self.campaign.history)]
        assert await self._command(*words) == 0, "\n".join(self.campaign.said[-5:])
        status = await self._command("history", "check", self.campaign.history)
        assert status == 0, "\n".join(self.campaign.said[-20:])

    async def _command(self, *words: str) -> int:
        run = await Command.start(words, cwd=self.campaign.home)
        status = await run.end()
        self.campaign.said += [f"-- {' '.join(words[:2])}: {status}", *run.said]
        assert "Traceback" not in run.text, run.text
        return status
