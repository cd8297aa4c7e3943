"""What a ledger store on BookKeeper asks of the metadata store that it connects to."""

import pytest

from counterpoise.app.conf import settings_from
from counterpoise.metadata import MemoryStore, MemoryTree, StoreUnavailable, zk
from counterpoise.names.properties import Properties
from counterpoise.storage.open import open_ledgers
from counterpoise.storage.options import StorageOptions
from counterpoise.storage.port import StorageError


async def test_its_session_has_the_brokers_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    async def connect(address: str, **how: object) -> None:
        asked.update(how, address=address)
        raise StoreUnavailable("connect", "there is none")

    monkeypatch.setattr(zk.ZooKeeperStore, "connect", connect)
    settings = {
        "ledgerStoreUrl": "metadata-store:zk:somewhere:2181/ledgers",
        "metadataStoreSessionTimeoutMillis": "4500",
        "metadataStoreOperationTimeoutSeconds": "7",
    }
    options = settings_from(StorageOptions, Properties(settings))
    with pytest.raises(StoreUnavailable):
        await open_ledgers(options)
    assert asked["address"] == "somewhere:2181"
    assert (asked["session_timeout_s"], asked["operation_timeout_s"]) == (4.5, 7)


async def test_where_there_is_no_bookkeeper_the_session_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = MemoryTree().open()

    async def connect(address: str, **how: object) -> MemoryStore:
        return session

    monkeypatch.setattr(zk.ZooKeeperStore, "connect", connect)
    settings = {"ledgerStoreUrl": "metadata-store:zk:somewhere:2181"}
    with pytest.raises(StorageError, match="somewhere:2181"):
        await open_ledgers(settings_from(StorageOptions, Properties(settings)))
    assert not session.connected
