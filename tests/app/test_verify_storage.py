"""``counterpoise verify-storage``: what it says, and its exit status."""

import asyncio
import json
from pathlib import Path

import pytest

from counterpoise.app.main import main
from counterpoise.storage.files.store import FileLedgerStore
from tests.storage.conftest import Heard, write


async def _fill(root: Path) -> None:
    store = FileLedgerStore(root, ledger_bytes=40)
    for name in ("t/n/persistent/a", "t/n/persistent/b"):
        heard = Heard()
        log = await store.open(name, "a", heard)
        for number in range(6):
            await write(log, heard, b"%d" % number * 20)
        await log.close()
    await store.close()


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    asyncio.run(_fill(tmp_path))
    return tmp_path


def snapshot(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_all_is_sound(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(stored)
    assert main(["verify-storage", str(stored)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == "t/n/persistent/a"
    assert printed.endswith("2 topics, 6 ledgers, 12 entries: all sound\n")
    assert main(["verify-storage", "--json", str(stored)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["sound"], printed["entries"], printed["lostEntries"]) == (True, 12, 0)
    assert snapshot(stored) == before


def test_damage_is_named_ledger_by_ledger(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = stored / "t/n/persistent/b"
    first, second, _ = sorted(log.glob("*.ledger"))
    data = bytearray(first.read_bytes())
    data[data.index(b"1" * 20)] ^= 1
    first.write_bytes(data)
    second.unlink()
    before = snapshot(stored)
    assert main(["verify-storage", str(stored)]) == 3
    printed = capsys.readouterr().out
    # A name is the ledger, then its writer's epoch; ids are the cluster's, not 0 and 1.
    ledgers = [int(each.stem.partition("-")[0]) for each in (first, second)]
    assert f"damaged: 1 entry lost, {ledgers[0]}:1\n" in printed
    assert f"missing: 2 entries lost, {ledgers[1]}:0 to 1\n" in printed
    assert printed.endswith("12 entries: 3 lost\n")
    assert main(["verify-storage", "--json", str(stored)]) == 3
    sound, damaged = json.loads(capsys.readouterr().out)["logs"]
    assert (sound["sound"], damaged["sound"], damaged["lostEntries"]) == (True, False, 3)
    assert [each["missing"] for each in damaged["ledgers"]] == [False, True, False]
    assert [each["lost"] for each in damaged["ledgers"]] == [
        [{"firstEntryId": 1, "lastEntryId": 1}],
        [{"firstEntryId": 0, "lastEntryId": 1}],
        [],
    ]
    assert damaged["damagedStates"] == []
    assert snapshot(stored) == before


def test_one_damaged_log_is_enough(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next((stored / "t/n/persistent/a").glob("*.ledger")).unlink()
    assert main(["verify-storage", str(stored)]) == 3
    assert capsys.readouterr().out.endswith("12 entries: 2 lost\n")


def test_damage_to_what_an_owner_left_is_named(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state,) = (stored / "t/n/persistent/b").glob("state-*.final")
    state.write_bytes(b"?")
    before = snapshot(stored)
    assert main(["verify-storage", str(stored)]) == 3
    printed = capsys.readouterr().out
    assert f"{state.name} is damaged" in printed
    assert "12 entries: all sound" not in printed
    assert main(["verify-storage", "--json", str(stored)]) == 3
    _, damaged = json.loads(capsys.readouterr().out)["logs"]
    assert (damaged["damagedStates"], damaged["lostEntries"]) == ([state.name], 0)
    assert snapshot(stored) == before


def test_no_directory_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-storage", str(tmp_path / "none")]) == 2
    assert "is no directory" in capsys.readouterr().err
