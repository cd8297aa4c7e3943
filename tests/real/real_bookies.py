"""Real bookies and a ZooKeeper, which can be killed and stopped, and a judge who writes to them."""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench._real_pulsar import Children, free_ports, write_conf

from counterpoise.app.clusters.bookies import bookie_settings
from counterpoise.bookkeeper.bookie_registry import BookieState, read_registry
from counterpoise.bookkeeper.bookies import BookieReadOptions
from counterpoise.bookkeeper.client import BookieLedgerClient, LedgerClientOptions
from counterpoise.bookkeeper.client_port import LedgerClient, LedgerOver, LedgerWriter
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.metadata import MetadataStore, Notification
from tests.real.bookies_tls import BookiesTls
from tests.real.java_ledgers import payload_mark

BOOKIES = 3
RATE = 1000
SILENT_S = 3.0
BACK_S = 90.0
"""How long a bookie may take to be missed, or to be back."""
AVOIDED_S = 2.0
IN_FLIGHT = 1000
SHELL = "org.apache.bookkeeper.bookie.BookieShell"


class BookieAway(Exception):
    """A bookie is not registered as it should be: what follows needs it."""


class RealBookies:
    """A ZooKeeper and bookies, each a process that can be killed, stopped and started again."""

    def __init__(self, children: Children, folder: Path) -> None:
        self.zookeeper, *self.ports = free_ports(1 + BOOKIES)
        self._children = children
        self.folder = folder
        self.tls = BookiesTls(folder / "tls")
        self.refuse_plain = False
        """Whether bookies that start from now on serve only clients with a role that they know."""

    @property
    def metadata_url(self) -> str:
        return f"zk:127.0.0.1:{self.zookeeper}"

    def start(self) -> None:
        self.start_zookeeper()
        self._children.wait_for_port(self.zookeeper, 150)
        for index, port in enumerate(self.ports):
            write_conf(self.folder / f"bookie{index}.conf", self._conf(index, port))
        self._children.java_once("setup", SHELL, "-conf", "bookie0.conf", "initnewcluster")
        for index in range(BOOKIES):
            self.start_bookie(index)
        for port in self.ports:
            self._children.wait_for_port(port, 150)

    def start_zookeeper(self) -> None:
        self._children.java(
            "zookeeper", "-Xmx256m", "-Dzookeeper.admin.enableServer=false",
            "org.apache.zookeeper.server.ZooKeeperServerMain", str(self.zookeeper),
            str(self.folder / "zk"),
        )  # fmt: skip

    def kill_zookeeper(self) -> None:
        self._children.stop("zookeeper", signal.SIGKILL)

    def start_auto_recovery(self) -> None:
        conf = self._conf(0, self.ports[0])
        quick = {"openLedgerRereplicationGracePeriod": 1000, "lostBookieRecoveryDelay": 0}
        write_conf(self.folder / "recovery.conf", {**conf, **quick})
        self._children.java(
            "recovery", "-Xmx192m", "org.apache.bookkeeper.replication.AutoRecoveryMain",
            "--conf", "recovery.conf",
        )  # fmt: skip

    def stop_auto_recovery(self) -> None:
        self._children.stop("recovery", signal.SIGTERM)

    def start_bookie(self, index: int, *, read_only: bool = False) -> None:
        conf = self._conf(index, self.ports[index])
        more = {"forceReadOnlyBookie": "true"} if read_only else {}
        write_conf(self.folder / f"bookie{index}.conf", {**conf, **more})
        self._children.java(
            f"bookie{index}", "-Xmx256m", "-XX:MaxDirectMemorySize=384m",
            "org.apache.bookkeeper.server.Main", "--conf", f"bookie{index}.conf",
        )  # fmt: skip

    async def wait_for(self, index: int, store: MetadataStore, state: BookieState) -> None:
        """Until the bookie is registered so; its former session has ended then, too."""
        changed = asyncio.Event()

        def hear(_: Notification) -> None:
            changed.set()

        leave, name = store.subscribe(hear), f"127.0.0.1:{self.ports[index]}"
        seen: BookieState | None = None
        try:
            async with asyncio.timeout(BACK_S):
                while True:
                    seen = (await read_registry(store, "/ledgers")).state_of(name)
                    if seen is state:
                        return
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            log = (self.folder / f"bookie{index}.log").read_text(errors="replace")
            last = "\n".join(log.splitlines()[-20:])
            raise BookieAway(
                f"bookie{index} is not {state} within {BACK_S:g} s but {seen}; it said last\n{last}"
            ) from None
        finally:
            leave()

    def kill(self, index: int) -> None:
        self._children.stop(f"bookie{index}", signal.SIGKILL)

    def signal(self, index: int, what: signal.Signals) -> None:
        os.killpg(self._children.pid(f"bookie{index}"), what)

    def index_of(self, bookie: str) -> int:
        return self.ports.index(int(bookie.rpartition(":")[2]))

    def _conf(self, index: int, port: int) -> dict[str, object]:
        zookeeper = f"127.0.0.1:{self.zookeeper}"
        settings = bookie_settings(port, self.folder / f"bk{index}", zookeeper)
        refusing = self.tls.of_refusing_bookie() if self.refuse_plain else {}
        return {**settings, **self.tls.of_bookie(), **refusing}


class Acknowledged:
    """What the writer of a ledger was notified of."""

    def __init__(self) -> None:
        self.last = -1
        self.gap_s = 0.0
        self.error: BookKeeperError | None = None
        self.changed = asyncio.Event()
        self._at = time.monotonic()

    def confirmed(self, last: int) -> None:
        now = time.monotonic()
        self.gap_s, self._at = max(self.gap_s, now - self._at), now
        self.last = last
        self.changed.set()

    def ended(self, error: BookKeeperError) -> None:
        self.error = error
        self.changed.set()

    async def until(self, last: int, seconds: float = 60) -> bool:
        """Whether this entry is acknowledged in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.last < last and self.error is None:
                    self.changed.clear()
                    await self.changed.wait()
        return self.last >= last


def payload(number: int, size: int = 200) -> bytes:
    return b"%d " % number * (size // (len(str(number)) + 1))


def sha256_of(count: int) -> str:
    total = hashlib.sha256()
    for number in range(count):
        total.update(payload_mark(payload(number)))
    return total.hexdigest()


async def write(writer: LedgerWriter, heard: Acknowledged, count: int, rate: float = 0.0) -> int:
    """Add entries, so many a second or as fast as they are acknowledged; gives how many."""
    begin = asyncio.get_running_loop().time()
    for number in range(count):
        try:
            writer.add(payload(number))
        except LedgerOver:
            return number
        if rate:
            await asyncio.sleep(max(0.0, begin + number / rate - asyncio.get_running_loop().time()))
        elif number % IN_FLIGHT == 0:
            await heard.until(number - IN_FLIGHT)
    return count


@dataclass
class BookiesJudge:
    """Each check is a line, and those that fail are counted."""

    bookies: RealBookies
    client: LedgerClient
    store: MetadataStore
    java: "subprocess.Popen[str]"
    failed: int = 0

    def check(self, what: str, holds: object, seen: object = "") -> None:
        self.failed += not holds
        print(f"{'ok    ' if holds else 'FAILED'} {what}{': ' * (seen != '')}{seen}", flush=True)

    async def by_java(self, ledger: int, *, recover: bool) -> dict[str, Any]:
        return await asyncio.to_thread(self.ask_java, {"read": ledger, "recover": recover})

    def ask_java(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.java.stdin is not None
        assert self.java.stdout is not None
        self.java.stdin.write(json.dumps(request) + "\n")
        self.java.stdin.flush()
        answer: dict[str, Any] = json.loads(self.java.stdout.readline())
        return answer

    async def check_java(self, what: str, ledger: int, count: int, *, recover: bool) -> None:
        """Java has to find so many entries, and each as it was written."""
        found = await self.by_java(ledger, recover=recover)
        same = found["entries"] == count and found["sha256"] == sha256_of(count)
        length = sum(len(payload(number)) for number in range(count))
        self.check(f"{what}: Java reads {count} entries", same and found["length"] == length, found)

    async def restart(self, index: int) -> None:
        """Start a bookie that was killed; its former session has to end first."""
        await self.bookies.wait_for(index, self.store, BookieState.GONE)
        self.bookies.start_bookie(index)
        await self.bookies.wait_for(index, self.store, BookieState.READ_WRITE)

    async def create(self) -> tuple[LedgerWriter, Acknowledged]:
        heard = Acknowledged()
        return await self.client.create({"application": b"pulsar"}, heard), heard


async def written(judge: BookiesJudge) -> bool:
    """Whether a new ledger takes an entry."""
    try:
        writer, heard = await judge.create()
        writer.add(payload(0))
        done = await heard.until(0, 15)
        await writer.close()
    except BookKeeperError:
        return False
    return done


@contextlib.asynccontextmanager
async def client_of(store: MetadataStore) -> AsyncIterator[LedgerClient]:
    asked = BookieReadOptions(speculative_s=1.0, timeout_s=SILENT_S, avoided_s=AVOIDED_S)
    options = LedgerClientOptions(bookies=asked)
    client = await BookieLedgerClient.open(store, options, Random(1))
    try:
        yield client
    finally:
        await client.close()
