"""Where a history is: what a person may write for it, and what comes of a slip."""

from pathlib import Path

import pytest

from counterpoise.pipeline.history.care import check, repair
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.tables.faults import HistoryFaultError, OutOfReachError, from_spark
from counterpoise.pipeline.tables.place import file_system
from tests.load.story import poll

NOWHERE = "s3://key:secret@bucket/h?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/data/my history", "/data/my history"),
        ("file:///data/my history", "/data/my history"),
        ("file:///data/my%20h%C3%BCstory", "/data/my hüstory"),
        ("file:/data/h", "/data/h"),
        ("file://localhost/data/h", "/data/h"),
        ("/data/100%25", "/data/100%25"),
        ("./s3:b/x", f"{Path.cwd()}/s3:b/x"),
    ],
)
def test_a_directory_is_named_by_its_path_or_as_a_uri(uri: str, path: str) -> None:
    store = open_store(uri)
    assert store.root == path
    assert store.address == path


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("", "has no name"),
        ("  ", "has no name"),
        ("s3:bucket/h", r"expected s3://.*is \./s3:bucket/h"),
        ("dbfs:/h", r"nothing here opens dbfs:.*is \./dbfs:/h"),
        ("memory://h", "nothing here opens memory:"),
        ("s3a://", "names no bucket: expected s3a://bucket/path"),
        ("gs:///?x=1", "names no bucket"),
        ("file://h", "expected file:///an/absolute/path"),
        ("file:h", "expected file:///an/absolute/path"),
    ],
)
def test_what_looks_like_a_uri_never_becomes_a_directory(uri: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        open_store(uri)


def test_a_scheme_may_be_written_in_capitals() -> None:
    filesystem, root = file_system("S3A" + NOWHERE[2:])
    assert (filesystem.type_name, root) == ("s3", "bucket/h")


class Down:
    """An S3 that cannot be reached, as `pyarrow` puts it."""

    def _fail(self, *_: object) -> None:
        raise OSError("When listing: AWS Error NETWORK_CONNECTION: curlCode: 7\nmore of it")

    get_file_info = open_input_file = open_output_stream = _fail


def test_a_store_that_does_not_answer_is_a_sentence_and_no_damage() -> None:
    store = Store(Down(), "bucket/h", NOWHERE)
    for ask in (
        lambda: store.names("reports"),
        lambda: store.exists("reports/x.parquet"),
        lambda: store.read("x.json", lambda file: file.read()),
        lambda: check(store),
    ):
        with pytest.raises(OutOfReachError, match=r"cannot be read.*try again") as error:
            ask()
        said = str(error.value)
        assert said.startswith("s3://bucket/h")
        assert "more of it" not in said
        assert from_spark(f"x: OutOfReachError: {said}\n\tat a.b") == said
    with pytest.raises(HistoryFaultError, match="cannot be written"):
        store.write("x.json", b"")


def test_repair_sets_nothing_aside_that_it_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    name = land(store, poll(1, {"b1:80": {"public/default/0x00000000_0x10000000": 1.0}}))

    def refused(self: Store, file: str, parse: object) -> object:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "_parsed", refused)
        with pytest.raises(OutOfReachError, match="let this user read there"):
            repair(store)
    assert files(store, "reports") == [name]
    assert check(store).damaged == ()
