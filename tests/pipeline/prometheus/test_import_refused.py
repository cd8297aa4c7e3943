"""What cannot be imported: a sentence, exit status 2, and nothing half done."""

import asyncio
import gzip
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.app.clusters.throwaway import ThrowAwayAuthority
from counterpoise.app.main import main
from counterpoise.load.poll_rows import poll_rows
from counterpoise.pipeline.bundle_lookup import name_in
from counterpoise.pipeline.prometheus.import_record import begun, read_record
from counterpoise.pipeline.prometheus.source import SeriesError
from counterpoise.pipeline.tables.reports import land, newest_poll
from tests.pipeline.histories import reader_of, writer_of
from tests.pipeline.prometheus.fake_prometheus import FakePrometheus, playing
from tests.pipeline.prometheus.importing import (
    BUNDLE_OF,
    FIRST_MS,
    OTHER,
    STEP_MS,
    export,
    imported,
    steady,
)
from tests.pipeline.prometheus.played import Series


async def test_another_source_is_not_mixed_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(20))
    assert await imported(FakePrometheus(series), tmp_path / "h", last=9) == 0
    assert await imported(FakePrometheus(series), tmp_path / "h", last=19) == 2
    assert "another value of the source" in capsys.readouterr().err
    assert newest_poll(reader_of(tmp_path / "h")) == FIRST_MS + 9 * STEP_MS


@pytest.mark.parametrize(
    ("series", "words", "sentence"),
    [
        ([], (), "has no series pulsar_rate_in in that time"),
        (
            [Series("pulsar_rate_in", {"cluster": "c", "namespace": "a/b"}, {FIRST_MS: 1.0})],
            (),
            "exposeTopicLevelMetricsInPrometheus=true",
        ),
        (
            [*steady("b1:8080", name_in(BUNDLE_OF), 0, 1, 2), *(
                Series(each.name, {**each.labels, "cluster": "d"}, each.values)
                for each in steady("b1:8080", name_in(OTHER), 0, 1, 2)
            )],
            (),
            "several clusters (c, d): choose one by --cluster",
        ),
        (steady("b1:8080", name_in(BUNDLE_OF), 0, 1), ("--cluster", "x"), "has series of c"),
        (
            [*steady("b1:8080", name_in(BUNDLE_OF), 0), *steady("b2:8080", name_in(OTHER), 0)],
            ("--default-bundles", "1"),
            "the boundaries are not the cluster's own",
        ),
        (steady("b1:8080", name_in(BUNDLE_OF), 0), ("--bundles", "/no"), "cannot read /no"),
    ],
    ids=["empty", "by-namespace", "two-clusters", "no-such-cluster", "boundaries", "no-file"],
)  # fmt: skip
async def test_what_cannot_be_imported_is_a_sentence_and_writes_nothing(
    series: list[Series],
    words: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await imported(FakePrometheus(series), tmp_path / "h", *words) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "h").exists()


async def test_a_token_is_shown_and_a_wrong_one_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(3))
    for token, status in (("secret", 0), ("other", 2)):
        (tmp_path / "token").write_text(token)
        prometheus = FakePrometheus(series, shown="Bearer secret")
        words = ("--prometheus-token-file", str(tmp_path / "token"))
        assert await imported(prometheus, tmp_path / token, *words, last=2) == status
    said = capsys.readouterr().err
    assert "HTTP 401" in said
    assert "--prometheus-token-file" in said
    assert "other" not in said, "no secret is repeated"
    assert not (tmp_path / "other").exists()


async def test_a_history_of_another_origin_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(10))
    file = export(series, tmp_path / "day.json", range(10))
    words = ["history", "import", str(tmp_path / "h"), "--file", str(file)]
    assert await asyncio.to_thread(main, words) == 0
    later = FIRST_MS + 10 * STEP_MS
    land(writer_of(tmp_path / "h"), poll_rows(later, "no broker answers", []))  # as `watch` does
    assert await asyncio.to_thread(main, words) == 2
    assert "looks at a cluster that were not imported" in capsys.readouterr().err


async def test_an_import_goes_on_with_what_it_was_made_of_alone(tmp_path: Path) -> None:
    """Behind the newest poll, wherever a run that was killed has left its record."""
    file = export(steady("b1:8080", name_in(BUNDLE_OF), *range(5)), tmp_path / "f.json", range(5))
    words = ["history", "import", str(tmp_path / "h"), "--file", str(file)]
    assert await asyncio.to_thread(main, words) == 0
    reader = reader_of(tmp_path / "h")
    record = read_record(reader.location)
    assert record is not None
    replace(record, last_ms=FIRST_MS).write(reader.location)
    assert begun(reader, record) == record
    for name, value in (("source", "x"), ("match", "job=x"), ("by", "bundles"), ("step_ms", 7)):
        with pytest.raises(SeriesError) as raised:
            begun(reader, replace(record, **{name: value}))
        assert f"({getattr(record, name)}, now {value})" in str(raised.value)


def matrix(*series: str) -> bytes:
    result = ",".join(series)
    text = f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}'
    return text.encode()


GOOD = '{"metric":{"__name__":"pulsar_rate_in","instance":"b1:80","topic":"t"},"values":[[60,"1"]]}'


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("none.json", None, "cannot read"),
        ("empty.json", b"", "it is empty"),
        ("page.json", b"<html>", "it is no answer of Prometheus's /api/v1/query_range"),
        ("cut.json", matrix(GOOD)[:-9], "it is no answer"),
        ("cut.json.gz", gzip.compress(matrix(GOOD))[:-9], "cannot read"),
        ("plain.json.gz", matrix(GOOD), "cannot read"),
        ("error.json", b'{"status":"error","error":"bad query"}', "bad query"),
        ("vector.json", matrix().replace(b"matrix", b"vector"), "a vector in place of a matrix"),
        ("nothing.json", matrix(), "it has no series with values"),
        ("other.json", matrix(GOOD.replace("rate_in", "other")), "no series pulsar_rate_in"),
        ("space.json", matrix(GOOD.replace("topic", "namespace")), "sums by namespace"),
        ("nobroker.json", matrix(GOOD.replace("instance", "host")), "--broker-label"),
        ("odd.json", matrix(GOOD.replace('"t"', '"a/b/c/d/e"')), "a/b/c/d/e"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value[-8:] else "",
)
def test_a_file_that_cannot_be_imported_is_a_sentence(
    name: str, data: bytes | None, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    words = ["history", "import", str(tmp_path / "h"), "--file", str(tmp_path / name)]
    assert main(words) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "h").exists()


async def test_a_password_is_shown_by_tls_to_a_server_that_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("authority", "other"):
        (tmp_path / name).mkdir()
    authority = ThrowAwayAuthority(tmp_path / "authority")
    pair = authority.server()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    (tmp_path / "user").write_text("alice:a:b\n")
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(3))
    prometheus = FakePrometheus(series, shown="Basic YWxpY2U6YTpi", tls=tls)
    words = ("--prometheus-user-file", str(tmp_path / "user"))
    trust = ("--prometheus-ca", str(authority.certificate))
    assert await imported(prometheus, tmp_path / "h", *words, *trust, last=2) == 0
    other = ThrowAwayAuthority(tmp_path / "other").certificate
    missing = ("--prometheus-ca", str(tmp_path / "missing"))
    for wrong in (("--prometheus-ca", str(other)), missing):
        assert await imported(prometheus, tmp_path / "no", *words, *wrong, last=2) == 2
    said = capsys.readouterr().err
    assert "certificate verify failed" in said
    assert "--prometheus-ca" in said
    assert "a:b" not in said, "no secret is repeated"


async def test_credentials_follow_no_redirect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = steady("b1:8080", name_in(BUNDLE_OF), *range(3))
    (tmp_path / "token").write_text("secret")
    other = FakePrometheus(series)
    async with playing(other):
        first = FakePrometheus(series, redirects_to=f"{other.url}/api/v1/query_range")
        words = ("--prometheus-token-file", str(tmp_path / "token"))
        assert await imported(first, tmp_path / "h", *words, last=2) == 2
    assert other.queries == []
    assert f"redirects to {other.url}" in capsys.readouterr().err
