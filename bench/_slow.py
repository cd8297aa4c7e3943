"""A disk and a ZooKeeper that take their time; how much is set while they are in use."""

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("_slow_disk.c")


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """What a process needs in its environment for its syncs to be delayed."""

    environment: dict[str, str]
    file: Path
    """While it is there, it holds the milliseconds that each sync takes longer."""

    @classmethod
    def make(cls, folder: Path) -> "SlowDisk":
        """Build it, with the C compiler that is on the path."""
        library, file = folder / "slow_disk.so", folder / "slow_disk_ms"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        return cls({"LD_PRELOAD": str(library), "SLOW_DISK_FILE": str(file)}, file)

    @contextlib.contextmanager
    def each_sync_takes(self, milliseconds: int) -> Iterator[None]:
        """Within the block each sync of those processes takes so much longer."""
        waiting = self.file.with_suffix(".new")
        waiting.write_text(str(milliseconds))
        waiting.replace(self.file)
        try:
            yield
        finally:
            self.file.unlink()


class SlowServer:
    """A proxy before a server on loopback: forwards what the server answers after a while."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._delay_s = 0.0
        self.address = ""
        """Its host and port, once it listens."""

    @contextlib.contextmanager
    def listening(self) -> Iterator["SlowServer"]:
        """Forward connections until the block ends, in a thread of its own."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            server = asyncio.run_coroutine_threadsafe(
                asyncio.start_server(self._connected, "127.0.0.1", 0), loop
            ).result(10)
            self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)

    @contextlib.contextmanager
    def each_answer_takes(self, milliseconds: int) -> Iterator[None]:
        """Within the block each answer comes so much later, however many are on their way."""
        self._delay_s = milliseconds / 1e3
        try:
            yield
        finally:
            self._delay_s = 0.0

    async def _connected(self, near: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        far, ask = await asyncio.open_connection("127.0.0.1", self._target)
        asking = asyncio.ensure_future(_copy(near, ask))
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        answering = asyncio.ensure_future(_write_when_due(waiting, answer))
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await far.read(1 << 16):
                waiting.put_nowait((loop.time() + self._delay_s, data))
        waiting.put_nowait((loop.time(), b""))
        await answering
        asking.cancel()


async def _write_when_due(
    waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
) -> None:
    """Write each in turn once its time has come; nothing at all ends it."""
    while True:
        due, data = await waiting.get()
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        if not data:
            writer.close()
            return
        writer.write(data)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()
