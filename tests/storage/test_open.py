"""Ledger stores by URL."""

import asyncio
from pathlib import Path

import pytest

from counterpoise.storage import open as stores
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.open import InvalidLedgerUrl, file_url, in_memory, open_ledgers
from counterpoise.storage.options import StorageOptions
from tests.storage.conftest import Heard, everything, write


async def test_a_directory_by_url_whatever_its_name(tmp_path: Path) -> None:
    root = tmp_path / "a b?c#d%20é"
    for expected in ([], [b"kept"]):
        store = await open_ledgers(StorageOptions(url=file_url(root)))
        assert isinstance(store, FileLedgerStore)
        heard = Heard()
        log = await store.open("t/n/persistent/x", "a", heard)
        assert await everything(log) == expected
        await write(log, heard, b"kept")
        await log.close()
        await store.close()
    assert await asyncio.to_thread((root / "t").is_dir)


async def test_memory_is_the_default() -> None:
    assert isinstance(await open_ledgers(StorageOptions()), MemoryLedgerStore)
    assert in_memory(StorageOptions().url)
    assert not in_memory("file:///x")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory",
        "memory:x",
        "/plain/path",
        "bk://x",
        "file:relative",
        "file://host/x",
        "file:///x?y",
        "file:///x#y",
        "metadata-store:",
        "metadata-store:memory:",
        "metadata-store:zk:",
        "zk:h:2181/ledgers",
    ],
)
async def test_what_is_no_url_is_refused_with_what_would_be(url: str) -> None:
    with pytest.raises(InvalidLedgerUrl, match=r"file:///directory") as caught:
        await open_ledgers(StorageOptions(url=url))
    assert repr(url) in str(caught.value)


async def test_another_store_is_a_scheme_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MemoryLedgerStore()

    async def other(_: StorageOptions) -> MemoryLedgerStore:
        return made

    monkeypatch.setattr(stores, "SCHEMES", {**stores.SCHEMES, "other": other})
    assert await open_ledgers(StorageOptions(url="other://anything")) is made
