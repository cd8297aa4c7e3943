"""A verb that waits for a cluster says so."""

import asyncio
import io
import sys

import pytest

from counterpoise.app.progress import while_waiting


class Lines(io.StringIO):
    """Sets an event at each line."""

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()

    def write(self, text: str) -> int:
        self.came.set()
        return super().write(text)


async def test_lines_come_while_it_waits_and_none_once_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered, lines = asyncio.Event(), Lines()
    monkeypatch.setattr(sys, "stderr", lines)

    async def work() -> int:
        await answered.wait()
        return 7

    waiting = asyncio.ensure_future(while_waiting(work(), "reading the cluster", 0.01))
    for seconds in ("0.01", "0.02"):
        lines.came.clear()
        await lines.came.wait()
        assert f"reading the cluster, {seconds} s so far" in lines.getvalue()
    answered.set()
    assert await waiting == 7
    said = lines.getvalue()
    assert await while_waiting(work(), "reading the cluster", 60.0) == 7
    assert lines.getvalue() == said


async def test_what_fails_fails_and_what_is_given_up_is_cancelled() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await while_waiting(fails(), "reading")
    never = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(while_waiting(never, "reading"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert never.cancelled()
