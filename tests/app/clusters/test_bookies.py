"""Bookies of a local cluster: where their jars may be, and what is said where they are not."""

import errno
from pathlib import Path

import psutil
import pytest

from counterpoise.app.clusters import bookies
from counterpoise.app.clusters.bookies import (
    CACHE_VARIABLE,
    LIB_VARIABLE,
    READY_MARK,
    LocalBookies,
    find_jars,
)
from counterpoise.app.clusters.processes import Child, ChildSpec
from counterpoise.app.errors import UserError
from counterpoise.app.main import main


def jars_in(directory: Path) -> Path:
    directory.mkdir()
    # As Pulsar's distribution names it; Maven leaves out the group.
    (directory / "org.apache.bookkeeper-bookkeeper-server-4.17.2.jar").touch()
    return directory


def test_jars_are_found_where_the_variable_says_or_in_the_cache(tmp_path: Path) -> None:
    cached = jars_in(tmp_path / "pulsar-4.0.7")
    (tmp_path / "pulsar-3.0.0").mkdir()
    assert find_jars({CACHE_VARIABLE: str(tmp_path)}) == cached
    named = jars_in(tmp_path / "lib")
    assert find_jars({CACHE_VARIABLE: str(tmp_path), LIB_VARIABLE: str(named)}) == named


def test_without_jars_it_says_where_they_may_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{LIB_VARIABLE}.*ledgerStoreUrl=metadata-store:zk:"):
        find_jars({}, tmp_path)


def test_bookies_bring_their_own_zookeeper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--bookies", "3", "--metadata", "zk:127.0.0.1:1"]) != 0
    assert "leave --metadata out" in capsys.readouterr().err


def test_a_bookie_that_cannot_be_forked_leaves_no_other_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\n"
        'case "$*" in *initnewcluster*) echo Successfully initiated cluster; exit 0;; esac\n'
        f"echo {READY_MARK}; exec sleep 600\n"
    )
    java.chmod(0o755)
    monkeypatch.setattr(bookies, "find_java", lambda: java)
    monkeypatch.setattr(bookies, "find_jars", lambda: tmp_path)
    before = set(psutil.Process().children())

    def child(asked: ChildSpec) -> Child:
        if asked.name == "bookie-3":
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return Child(asked)

    child.start = Child.start  # type: ignore[attr-defined]
    monkeypatch.setattr(bookies, "Child", child)
    with pytest.raises(BlockingIOError):
        LocalBookies.start(3, tmp_path / "home", "127.0.0.1:1")
    assert set(psutil.Process().children()) == before
