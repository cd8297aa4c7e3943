"""The client of BookKeeper on three real bookies and a ZooKeeper, beside BookKeeper's own for Java.

Two copies of every entry: the third bookie takes the place of one that is killed or stopped while
entries are written. Whatever happens, every acknowledged entry is read back by Java, and nothing is
acknowledged of a ledger that another client recovered.
"""

import asyncio
import contextlib
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from bench._real_pulsar import Children

from counterpoise.bookkeeper.bookie_registry import BookieState
from counterpoise.bookkeeper.client_port import LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import read_ledger_metadata
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.metadata import Notification, open_store
from tests.real.bookies_refusing import judge_refusing
from tests.real.bookies_tls import by_storage_verb, tls_client
from tests.real.real_bookies import (
    BOOKIES,
    IN_FLIGHT,
    RATE,
    SILENT_S,
    BookieAway,
    BookiesJudge,
    RealBookies,
    client_of,
    payload,
    write,
    written,
)
from tests.real.storage import java_ledgers


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


async def judge_each(judge: BookiesJudge) -> None:
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
    await judge_refusing(judge)


async def judge_all(bookies: RealBookies, java: "subprocess.Popen[str]") -> int:
    store = await open_store(bookies.metadata_url)
    try:
        for index in range(BOOKIES):
            await bookies.wait_for(index, store, BookieState.READ_WRITE)
        async with client_of(store) as client:
            judge = BookiesJudge(bookies, client, store, java)
            try:
                await judge_each(judge)
            except BookieAway as error:
                judge.check("bookies are back for what follows", False, error)
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
