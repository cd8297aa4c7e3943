"""Where a history is: what a person may write for it, and what delta-rs gets of that."""

import pickle
from pathlib import Path

import pytest

from counterpoise.pipeline.stream.trouble import sentence_of
from counterpoise.pipeline.tables.faults import HistoryFaultError, OutOfReachError
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.plain_files import names_below, read_plain
from counterpoise.pipeline.tables.schema import REPORTS

BOUNDED = {"connect_timeout": "5s", "timeout": "15s", "retry_timeout": "30s"}
"""How long a store that does not answer may hold up a commit."""
NOWHERE = "s3://key:sec%2Fret@bucket/h?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"


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
    location = open_location(uri)
    assert (location.root, location.address) == (path, path)
    assert location.table_uri("reports") == f"{path}/reports"
    assert location.storage_options == {}


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
        open_location(uri)


def test_parameters_of_an_s3_uri_reach_delta_rs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    location = open_location("S3A" + NOWHERE[2:])
    assert (location.filesystem.type_name, location.root) == ("s3", "bucket/h")
    assert pickle.loads(pickle.dumps(location)) == location
    assert location.address == "S3A://bucket/h"
    assert location.table_uri("reports") == "s3://bucket/h/reports"
    assert location.storage_options == BOUNDED | {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "sec/ret",
        "AWS_ALLOW_HTTP": "true",
    }
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    assert open_location("s3://bucket/h?region=eu-1").storage_options == BOUNDED | {
        "AWS_REGION": "eu-1",
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "AWS_ALLOW_HTTP": "true",
    }


def test_what_cannot_be_read_is_named_without_keys(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    with pytest.raises(HistoryFaultError, match="control cannot be read"):
        read_plain(open_location(tmp_path), "control")


def test_a_store_that_does_not_answer_is_a_sentence_and_no_damage() -> None:
    location = Location(NOWHERE)
    for ask in (
        lambda: names_below(location, "reports"),
        lambda: read_plain(location, "control"),
        lambda: TablesReader(location).files(REPORTS),
    ):
        with pytest.raises(OutOfReachError, match=r"cannot be read.*try again") as error:
            ask()
        said = str(error.value)
        assert said.startswith("s3://bucket/h")
        assert "sec" not in said
        assert sentence_of(f"x: OutageError: {said}\n\tat a.b") == said
