"""Bookies of a local cluster: where their jars may be, and what is said where they are not."""

from pathlib import Path

import pytest

from counterpoise.app.clusters.bookies import CACHE_VARIABLE, LIB_VARIABLE, find_jars
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
