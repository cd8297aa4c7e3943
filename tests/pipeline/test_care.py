"""`counterpoise history`: what is damaged is named, set aside, and the rest goes on."""

from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from counterpoise.app.main import main
from counterpoise.load.fold import FoldState
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.ownership import Owners
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.views import NAMES
from counterpoise.pipeline.stream.states import complete, state_name, write_state
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import bundle_name

ONE, TWO = bundle_name(1), bundle_name(2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three polls, in which a bundle moves and a broker falls silent, and two states."""
    told: list[dict[str, Loads | None]] = [
        {"b1:80": {ONE: 10.0, TWO: 20.0}, "b2:80": {}},
        {"b1:80": {ONE: 10.0}, "b2:80": {TWO: 20.0}},
        {"b1:80": {ONE: 10.0}, "b2:80": None},
    ]
    made, owners = open_store(tmp_path / "history"), Owners()
    for number, brokers in enumerate(told):
        rows = poll(number, brokers)
        owners.land(made, rows)
        land(made, rows)
    for poll_id in (START, START + 5000):
        for shard in range(2):
            write_state(made, state_name(poll_id, shard, 2), FoldState.empty())
    return made


def history(*words: str) -> int:
    return main(["history", *words])


def test_a_history_that_is_whole_is_said_to_be(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert history("check", store.root) == 0
    said = capsys.readouterr().out
    assert "every file can be read" in said
    assert "reports         1 days       3 files            14 rows" in said


@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_what_is_damaged_is_set_aside_and_the_rest_goes_on(
    store: Store, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    name = files(store, "reports")[1]
    path = Path(store.root) / name
    data = bytearray(path.read_bytes())
    if how == "cut":
        del data[len(data) // 2 :]
    else:
        data[200:260] = bytes(60)
    path.write_bytes(data)
    state = Path(store.root) / state_name(START + 5000, 1, 2)
    state.write_bytes(b"half")
    assert history("check", store.root) == 1
    assert f"damaged: {name}" in capsys.readouterr().out
    assert history("repair", store.root) == 0
    assert "2 files are in" in capsys.readouterr().out
    assert (Path(store.root) / "damaged" / name).exists(), "nothing is thrown away"
    assert len(files(store, "reports")) == 2
    assert complete(store) == [(START, 2)], "the stream goes back to the state before"
    assert history("check", store.root) == 0


def test_what_was_left_half_way_goes(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", lambda self, name: None)
        compact(store, "reports", up_to_poll=START * 2, at_least=1)
    hidden = Path(store.root) / "reports" / ".1.parquet.77.tmp"
    hidden.write_bytes(b"half a file")
    assert history("check", store.root) == 0
    assert "3 files are there twice" in capsys.readouterr().out
    assert history("repair", store.root) == 0
    assert not hidden.exists()
    [day] = store.directories("reports")
    assert len(store.names(f"reports/{day}")) == 1


def exported(store: Store, tmp_path: Path, *words: str) -> list[dict[str, object]]:
    out = tmp_path / "out.parquet"
    assert history("export", store.root, *words, "--out", str(out)) == 0
    rows: list[dict[str, object]] = pq.read_table(out).to_pylist()
    return rows


def test_views_say_what_was_seen(store: Store, tmp_path: Path) -> None:
    loads = exported(store, tmp_path, "bundle-loads")
    assert [(r["broker"], r["bundle"], r["msg_throughput_in"]) for r in loads] == [
        ("b1:80", ONE, 10.0), ("b1:80", TWO, 20.0), ("b1:80", ONE, 10.0),
        ("b2:80", TWO, 20.0), ("b1:80", ONE, 10.0),
    ]  # fmt: skip
    [_, _, change] = exported(store, tmp_path, "ownership")
    assert (change["bundle"], change["source"], change["destination"]) == (TWO, "b1:80", "b2:80")
    [gap] = exported(store, tmp_path, "gaps")
    assert (gap["broker"], gap["note"]) == ("b2:80", "no answer")
    assert len(exported(store, tmp_path, "broker-loads")) == 5


def test_a_time_of_interest_is_cut_out(store: Store, tmp_path: Path) -> None:
    moment = "2023-11-14T22:13:25"  # the second poll
    assert len(exported(store, tmp_path, "gaps", "--to", moment)) == 0
    assert len(exported(store, tmp_path, "bundle-loads", "--from", moment)) == 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["parquet", "csv"])
def test_a_time_without_rows_is_a_file_with_columns(
    store: Store, tmp_path: Path, name: str, end: str
) -> None:
    """`store` has no rounds, and nothing of tomorrow."""
    out = tmp_path / f"none.{end}"
    words = ("export", store.root, name, "--from", "2023-11-16", "--out", str(out))
    assert history(*words) == 0
    read = pq.read_table(out) if end == "parquet" else pyarrow.csv.read_csv(out)
    assert len(read) == 0
    assert "at" in read.column_names


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["export", "HERE", "nothing", "--out", "x.csv"], "there are reports"),
        (
            ["export", "HERE", "gaps", "--from", "2026-02-01", "--to", "2026-01-01", "--out", "x"],
            "--from 2026-02-01 --to 2026-01-01: nothing is between them",
        ),
        (["export", "HERE", "gaps", "--out", "x.txt"], ".parquet or .csv"),
        (["export", "HERE", "gaps", "--from", "soon", "--out", "x.csv"], "is no time"),
        (["check", "/no/such/history"], "is no history"),
        (["check", "nonsense://here"], "nonsense"),
        (["check", "s3://key:word@bucket/x?scheme=ftp&region=us-east-1"], "s3://bucket/x"),
    ],
)
def test_a_mistake_is_a_sentence(
    store: Store, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert history(*(store.root if word == "HERE" else word for word in words)) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
