"""The client of BookKeeper on three real bookies and a ZooKeeper, beside BookKeeper's own for Java.

Two copies of every entry: the third bookie takes the place of one that is killed or stopped while
entries are written. Whatever happens, every acknowledged entry is read back by Java, and nothing is
acknowledged of a ledger that another client recovered.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
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
from counterpoise.bookkeeper.ledger_metadata import read_ledger_metadata
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.metadata import MetadataStore, Notification, open_store
from tests.real.bookies_tls import BookiesTls, by_storage_verb, tls_client
from tests.real.java_ledgers import payload_mark
from tests.real.storage import java_ledgers

BOOKIES = 3
RATE = 1000
SILENT_S = 3.0
AVOIDED_S = 2.0
IN_FLIGHT = 1000
SHELL = "org.apache.bookkeeper.bookie.BookieShell"


class RealBookies:
    """A ZooKeeper and bookies, each a process that can be killed, stopped and started again."""

    def __init__(self, children: Children, folder: Path) -> None:
        self.zookeeper, *self.ports = free_ports(1 + BOOKIES)
        self._children = children
        self._folder = folder
        self.tls = BookiesTls(folder / "tls")

    @property
    def metadata_url(self) -> str:
        return f"zk:127.0.0.1:{self.zookeeper}"

    def start(self) -> None:
        self.start_zookeeper()
        self._children.wait_for_port(self.zookeeper, 150)
        for index, port in enumerate(self.ports):
            write_conf(self._folder / f"bookie{index}.conf", self._conf(index, port))
        self._children.java_once("setup", SHELL, "-conf", "bookie0.conf", "initnewcluster")
        for index in range(BOOKIES):
            self.start_bookie(index)
        for port in self.ports:
            self._children.wait_for_port(port, 150)

    def start_zookeeper(self) -> None:
        self._children.java(
            "zookeeper", "-Xmx256m", "-Dzookeeper.admin.enableServer=false",
            "org.apache.zookeeper.server.ZooKeeperServerMain", str(self.zookeeper),
            str(self._folder / "zk"),
        )  # fmt: skip

    def kill_zookeeper(self) -> None:
        self._children.stop("zookeeper", signal.SIGKILL)

    def start_auto_recovery(self) -> None:
        conf = self._conf(0, self.ports[0])
        quick = {"openLedgerRereplicationGracePeriod": 1000, "lostBookieRecoveryDelay": 0}
        write_conf(self._folder / "recovery.conf", {**conf, **quick})
        self._children.java(
            "recovery", "-Xmx192m", "org.apache.bookkeeper.replication.AutoRecoveryMain",
            "--conf", "recovery.conf",
        )  # fmt: skip

    def stop_auto_recovery(self) -> None:
        self._children.stop("recovery", signal.SIGTERM)

    def start_bookie(self, index: int, *, read_only: bool = False) -> None:
        conf = self._conf(index, self.ports[index])
        more = {"forceReadOnlyBookie": "true"} if read_only else {}
        write_conf(self._folder / f"bookie{index}.conf", {**conf, **more})
        self._children.java(
            f"bookie{index}", "-Xmx256m", "-XX:MaxDirectMemorySize=384m",
            "org.apache.bookkeeper.server.Main", "--conf", f"bookie{index}.conf",
        )  # fmt: skip

    async def wait_for(self, index: int, store: MetadataStore, state: BookieState) -> None:
        """Until the bookie is registered so; its former session has ended then, too."""
        changed = asyncio.Event()

        def hear(_: Notification) -> None:
            changed.set()

        leave = store.subscribe(hear)
        try:
            async with asyncio.timeout(90):
                while True:
                    registry = await read_registry(store, "/ledgers")
                    if registry.state_of(f"127.0.0.1:{self.ports[index]}") is state:
                        return
                    await changed.wait()
                    changed.clear()
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
        settings = bookie_settings(port, self._folder / f"bk{index}", zookeeper)
        return {**settings, **self.tls.of_bookie()}


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


async def judge_plain(judge: BookiesJudge) -> None:
    writer, heard = await judge.create()
    began = time.monotonic()
    await write(writer, heard, 10_000)
    judge.check("10,000 entries are acknowledged", await heard.until(9_999), heard.error or "")
    took = time.monotonic() - began
    reader = await judge.client.read_open(writer)
    half = await judge.by_java(writer.ledger, recover=False)
    judge.check("Java reads the open ledger, fencing nothing", 0 < half["entries"] <= 10_000, half)
    await writer.close()
    await judge.check_java("written by Python", writer.ledger, 10_000, recover=False)
    entries = await reader.read(5_000, 5_999)
    judge.check("Python reads them", entries == [payload(n) for n in range(5_000, 6_000)])
    print(f"       {10_000 / took:,.0f} entries of 200 bytes a second, {IN_FLIGHT} in flight")
    request = {"custom": {"a": "b"}, "entries": ["x" * n for n in range(500)], "close": False}
    made = await asyncio.to_thread(judge.ask_java, request)
    found = await judge.client.recover(made["ledger"])
    texts = [each.decode() for each in await found.read(0, 499)]
    judge.check("Python recovers what Java left open", texts == request["entries"], len(texts))
    again = await judge.by_java(made["ledger"], recover=True)
    judge.check("and Java finds it closed there", again["entries"] == 500, again)
    await judge.client.delete(made["ledger"])


async def judge_tls(judge: BookiesJudge) -> None:
    """Entries go by TLS, from a client whose certificate the bookies trust, and from no other."""
    tls = judge.bookies.tls
    async with tls_client(judge.store, tls.options) as client:
        by_tls = replace(judge, client=client)
        writer, heard = await by_tls.create()
        began = time.monotonic()
        await write(writer, heard, 10_000)
        judge.check("10,000 entries by TLS", await heard.until(9_999), heard.error or "")
        took = time.monotonic() - began
        print(f"       {10_000 / took:,.0f} entries of 200 bytes a second by TLS")
        await writer.close()
        await judge.check_java("written by TLS", writer.ledger, 10_000, recover=False)
        reader = await client.recover(writer.ledger)
        read = await reader.read(0, 99)
        judge.check("Python reads them by TLS", read == [payload(n) for n in range(100)])
    url = judge.bookies.metadata_url
    status, rows = await by_storage_verb(url, writer.ledger, tls.options)
    readable = [row for row in rows if not row["unreadable"]]
    judge.check("`storage` reads them by TLS", (status, len(readable)) == (0, 100), rows[:1])
    for what, options in tls.refused.items():
        status, rows = await by_storage_verb(url, writer.ledger, options)
        readable = [row for row in rows if not row["unreadable"]]
        judge.check(f"`storage`: {what} is refused", (status, readable) == (3, []), rows[:1])
        async with tls_client(judge.store, options) as client:
            refused = not await written(replace(judge, client=client))
            judge.check(f"{what} is refused", refused)


async def judge_failing(judge: BookiesJudge, how: str) -> None:
    """A bookie of the ensemble is killed or stopped while entries are written."""
    writer, heard = await judge.create()
    writing = asyncio.create_task(write(writer, heard, 10 * RATE, RATE))
    await heard.until(2 * RATE)
    path = judge.bookies
    index = path.index_of(await first_bookie(judge, writer.ledger))
    heard.gap_s = 0.0
    if how == "kill -9":
        path.kill(index)
    else:
        path.signal(index, signal.SIGSTOP)
    count = await writing
    judge.check(f"{how}: all are acknowledged", await heard.until(count - 1), heard.error or count)
    print(f"       longest time without an acknowledgement: {heard.gap_s:.2f} s")
    judge.check(f"{how}: within the time-out", heard.gap_s < SILENT_S + 3)
    await writer.close()
    await judge.check_java(how, writer.ledger, count, recover=False)
    if how == "kill -9":
        await judge.restart(index)
    else:
        path.signal(index, signal.SIGCONT)


async def judge_read_only(judge: BookiesJudge) -> None:
    """A bookie of the ensemble comes back and takes no more entries, as with a full disk."""
    writer, heard = await judge.create()
    await write(writer, heard, 100)
    await heard.until(99)
    index = judge.bookies.index_of(await first_bookie(judge, writer.ledger))
    judge.bookies.kill(index)
    await judge.bookies.wait_for(index, judge.store, BookieState.GONE)
    judge.bookies.start_bookie(index, read_only=True)
    await judge.bookies.wait_for(index, judge.store, BookieState.READ_ONLY)
    for number in range(100, 200):
        writer.add(payload(number))
    judge.check("read-only bookie: all are acknowledged", await heard.until(199), heard.error or "")
    await writer.close()
    await judge.check_java("read-only bookie", writer.ledger, 200, recover=False)
    judge.bookies.kill(index)
    await judge.restart(index)


async def judge_without_zookeeper(judge: BookiesJudge) -> None:
    """A bookie has to be replaced while ZooKeeper is away."""
    writer, heard = await judge.create()
    await write(writer, heard, 100)
    await heard.until(99)
    index = judge.bookies.index_of(await first_bookie(judge, writer.ledger))
    judge.bookies.kill_zookeeper()
    judge.bookies.kill(index)
    for number in range(100, 200):
        writer.add(payload(number))
    late = await heard.until(100, 5)
    judge.check("without ZooKeeper nothing is acknowledged", not late and heard.error is None)
    judge.bookies.start_zookeeper()
    back = await heard.until(199, 40)
    judge.check("with ZooKeeper back all are acknowledged", back, heard.error or "")
    await judge.restart(index)
    await writer.close()
    await judge.check_java("ZooKeeper away", writer.ledger, 200, recover=False)


async def judge_auto_recovery(judge: BookiesJudge) -> None:
    """Auto-recovery fences a healthy writer, because one of its bookies is gone."""
    writer, heard = await judge.create()
    await write(writer, heard, 100)
    await heard.until(99)
    fenced = asyncio.Event()
    path = ledger_path("/ledgers", writer.ledger)

    def hear(change: Notification) -> None:
        if change.path == path:
            fenced.set()

    leave = judge.store.subscribe(hear)
    index = judge.bookies.index_of(await first_bookie(judge, writer.ledger))
    judge.bookies.start_auto_recovery()
    judge.bookies.kill(index)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(120):
            await fenced.wait()
    leave()
    judge.check("auto-recovery recovers the open ledger", fenced.is_set())
    with contextlib.suppress(LedgerOver):
        writer.add(payload(100))
    await heard.until(100, 30)
    ended = isinstance(heard.error, LedgerOver) and heard.last == 99
    judge.check("its writer is over, and none is lost", ended, heard.error)
    judge.bookies.stop_auto_recovery()
    await judge.restart(index)
    found = await judge.by_java(writer.ledger, recover=True)
    # The entry that was sent when the ledger was fenced may be in it, though not acknowledged.
    judge.check("Java reads what was acknowledged", found["entries"] in (100, 101), found)
    judge.check("a new ledger is written", await written(judge))


async def first_bookie(judge: BookiesJudge, ledger: int) -> str:
    path = ledger_path("/ledgers", ledger)
    found = await judge.store.get(path)
    assert found is not None
    return read_ledger_metadata(ledger, path, found.value).segments[-1].ensemble[0]


async def judge_zombie(judge: BookiesJudge, by: str) -> None:
    """Another client recovers a ledger that is written."""
    writer, heard = await judge.create()
    writing = asyncio.create_task(write(writer, heard, 20 * RATE, RATE))
    await heard.until(RATE)
    if by == "Java":
        end = (await judge.by_java(writer.ledger, recover=True))["entries"] - 1
    else:
        async with client_of(judge.store) as other:
            end = (await other.recover(writer.ledger)).last_entry
    acknowledged = heard.last
    await writing
    await heard.until(20 * RATE, 10)
    judge.check(f"fenced by {by}: it hears of it", isinstance(heard.error, LedgerOver), heard.error)
    judge.check(
        f"fenced by {by}: none is acknowledged beyond its end",
        acknowledged <= end and heard.last <= end,
        f"{heard.last} of {end}",
    )
    try:
        await writer.close()
        closed = heard.last == end
    except BookKeeperError as error:
        closed = heard.last != end
        print(f"       {error}")
    judge.check(f"fenced by {by}: closing says how it is", closed)
    await judge.check_java(f"fenced by {by}", writer.ledger, end + 1, recover=False)


async def judge_too_few(judge: BookiesJudge) -> None:
    writer, heard = await judge.create()
    await write(writer, heard, 100)
    await heard.until(99)
    for index in (0, 1):
        judge.bookies.kill(index)
    before = heard.last
    with contextlib.suppress(LedgerOver):
        for number in range(100, 200):
            writer.add(payload(number))
    await heard.until(100, 30)
    judge.check("one bookie of three: nothing is acknowledged", heard.last == before, heard.error)
    refused = 0
    for _ in range(5):
        refused += not await written(judge)
    judge.check("one bookie of three: new ledgers take nothing", refused == 5, refused)
    for index in (0, 1):
        await judge.restart(index)
    judge.check("with the others back a new ledger is written", await written(judge))
    await writer.close()
    await judge.check_java("the ledger before", writer.ledger, 100, recover=False)


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


async def judge_all(bookies: RealBookies, java: "subprocess.Popen[str]") -> int:
    store = await open_store(bookies.metadata_url)
    try:
        for index in range(BOOKIES):
            await bookies.wait_for(index, store, BookieState.READ_WRITE)
        async with client_of(store) as client:
            judge = BookiesJudge(bookies, client, store, java)
            await judge_plain(judge)
            await judge_tls(judge)
            await judge_zombie(judge, "Java")
            await judge_zombie(judge, "Python")
            await judge_failing(judge, "kill -9")
            await judge_failing(judge, "SIGSTOP")
            await judge_read_only(judge)
            await judge_without_zookeeper(judge)
            await judge_auto_recovery(judge)
            await judge_too_few(judge)
            return judge.failed
    finally:
        await store.close()


def judge_bookies(lib: Path, home: Path) -> int:
    """Gives the number of checks that failed."""
    folder = home / "bookies"
    folder.mkdir(parents=True, exist_ok=True)
    with Children(lib, folder) as children:
        bookies = RealBookies(children, folder)
        bookies.start()
        with java_ledgers(lib, f"127.0.0.1:{bookies.zookeeper}") as java:
            return asyncio.run(judge_all(bookies, java))
