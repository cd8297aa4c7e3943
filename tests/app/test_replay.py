"""Recordings of the official client, replayed: the same messages in the same order, or why not."""

import io
import json
import time
from pathlib import Path

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.errors import UserError
from counterpoise.app.main import main
from counterpoise.app.recordings.recording_file import RecordingFile
from counterpoise.app.verbs import replay
from counterpoise.faults.recording import RecordKind, TrafficRecord, read_recording
from counterpoise.wire.encode import frame
from counterpoise.wire.proto.commands_pb2 import CommandConnect

pytestmark = pytest.mark.client
REPLAY = ("replay", "--patience", "60")
REFUSE_SECOND = {"operation": "SEND", "effect": "error", "code": "PersistenceError", "every": 2}


def publish_and_consume(cluster: Cluster, token: str | None = None) -> list[bytes]:
    """Publish five messages, acknowledge three; returns what was received, again in the end."""
    client = pulsar.Client(
        cluster.service_url,
        authentication=None if token is None else pulsar.AuthenticationToken(token),
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    consumer = client.subscribe("orders", "billing")
    producer = client.create_producer("orders")
    for number in range(5):
        producer.send(b"order %d" % number)
    received = []
    for number in range(5):
        message = consumer.receive(60_000)
        received.append(message.data())
        if number < 3:
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe("orders", "billing")
    received += [again.receive(60_000).data() for _ in range(2)]
    again.redeliver_unacknowledged_messages()
    received += [again.receive(60_000).data() for _ in range(2)]
    client.close()
    return received


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("recorded") / "traffic"
    with Cluster(brokers=3, record=file) as cluster:
        received = publish_and_consume(cluster)
    assert received == [b"order %d" % number for number in (0, 1, 2, 3, 4, 3, 4, 3, 4)]
    return file


def test_a_replay_is_answered_as_the_recording_was(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again"
    with Cluster(brokers=1, record=again) as cluster:
        # Messages are at other positions than then: their ledgers have other ids.
        earlier = pulsar.Client(cluster.service_url)
        for topic in ("a", "b", "c"):
            earlier.create_producer(topic).send(b"")
        earlier.close()
        assert main([*REPLAY, str(recording), "--url", cluster.service_url]) == 0
        # What was acknowledged is not there any more, and nothing else is missing.
        client = pulsar.Client(cluster.service_url)
        consumer = client.subscribe("orders", "billing")
        assert [consumer.receive(60_000).data() for _ in range(2)] == [b"order 3", b"order 4"]
        client.close()
    assert "no differences" in capsys.readouterr().out


def test_a_fault_makes_the_replay_differ_and_the_story_names_it(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = json.dumps(REFUSE_SECOND)
    assert main(["replay", str(recording), "--fault", fault, "--patience", "0.2"]) == 1
    story = capsys.readouterr().out
    refused = "message 1 of a producer of persistent://public/default/orders"
    assert f"{refused} was answered with done then, with PersistenceError now" in story
    assert "billing of persistent://public/default/orders got" in story


@pytest.mark.parametrize(("found", "more"), [(50, ""), (51, "  and 1 more\n")])
def test_fifty_differences_are_shown_and_how_many_more_there_are(
    recording: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: int,
    more: str,
) -> None:
    class Different:
        commands, logs = 7, ("one", "two")

        def __init__(self, _: object) -> None:
            pass

        async def run(self, _: object) -> None:
            pass

        def differences(self) -> list[str]:
            return [f"difference {number}" for number in range(found)]

    monkeypatch.setattr(replay, "Replay", Different)
    assert main(["replay", str(recording), "--url", "pulsar://127.0.0.1:1"]) == 1
    said = capsys.readouterr().out
    assert f"7 commands sent again on 2 connections, {found} differences\n" in said
    assert said.count("difference ") == 50
    assert said.endswith(f"  difference 49\n{more}")


def test_a_token_is_not_recorded(tmp_path: Path) -> None:
    file = tmp_path / "traffic"
    with Cluster(brokers=1, tokens=True, record=file) as cluster:
        token = cluster.security.token("admin")
        publish_and_consume(cluster, token)
        # While it runs: a kill could not take from the file what is read here.
        written = file.read_bytes()
    assert b"order 4" in written
    assert token.encode() not in written
    assert token.split(".")[2].encode() not in written
    assert file.stat().st_mode & 0o077 == 0


def test_a_recording_cut_off_anywhere_loses_its_last_record_alone(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = recording.read_bytes()
    whole = list(read_recording(io.BytesIO(written)))
    last = len(whole[-1].to_bytes())
    for cut in range(1, last + 1):
        assert list(read_recording(io.BytesIO(written[:-cut]))) == whole[:-1]
    cut_off = tmp_path / "cut"
    cut_off.write_bytes(written[:-1])
    assert main([*REPLAY, str(cut_off)]) == 0
    assert f"the last {last - 1} bytes" in capsys.readouterr().err


@pytest.mark.parametrize("at", [0, 24, 28, 40])
def test_a_damaged_recording_is_refused_in_a_sentence(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    written = bytearray(recording.read_bytes())
    written[at] ^= 0xFF
    damaged = tmp_path / "damaged"
    damaged.write_bytes(written)
    assert main(["replay", str(damaged)]) == 2
    assert capsys.readouterr().err.startswith("counterpoise: ")


def test_what_cannot_be_replayed_or_recorded_is_said_in_a_sentence(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (
        ["replay", "/nowhere/traffic"],
        ["replay", str(recording), "--speed", "nan"],
        ["replay", str(recording), "--url", "http://x"],
        ["replay", str(recording), "--url", "pulsar://127.0.0.1:1"],
        ["replay", str(recording), "--fault", "{}"],
        ["replay", str(recording), "--fault", '{"operation": "SEND", "effect": "none"}'],
        ["up", "--record", str(recording)],
        ["up", "--record", "/nowhere/traffic"],
    ):
        assert main(argv) == 2, argv
        assert capsys.readouterr().err.startswith("counterpoise: ")


def test_a_recording_stops_at_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "traffic"
    recorder = RecordingFile(file, 1)
    number = recorder.opened()
    for _ in range(30):
        recorder.received(number, frame(CommandConnect(client_version="x" * 50_000)))
    recorder.close()
    assert file.stat().st_size <= 1024 * 1024
    kinds = [each.kind for each in read_recording(io.BytesIO(file.read_bytes()))]
    assert kinds == [RecordKind.OPENED] + [RecordKind.FROM_CLIENT] * 20


def test_a_recording_may_be_exactly_as_large_as_was_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UserError, match="a recording of 0 MiB: allow it at least 1"):
        RecordingFile(tmp_path / "none", 0)
    file = tmp_path / "traffic"
    recorder = RecordingFile(file, 1)
    number = recorder.opened()
    about = TrafficRecord(RecordKind.FROM_CLIENT, number, 0).size
    recorder.received(number, bytes(1024 * 1024 - file.stat().st_size - about))
    assert (file.stat().st_size, caplog.messages) == (1024 * 1024, [])
    recorder.closed(number)
    assert file.stat().st_size == 1024 * 1024
    assert "it is as large as --record-mib allows. The cluster goes on." in caplog.text


def test_a_recording_says_when_each_connection_began_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = [5_000_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns[0])
    file = tmp_path / "traffic"
    recorder = RecordingFile(file, 1)
    first, second = recorder.opened(), recorder.opened()
    now_ns[0] += 1_500_000
    recorder.closed(first)
    recorder.close()
    recorder.closed(second)
    found = read_recording(io.BytesIO(file.read_bytes()))
    assert [(each.kind, each.connection, each.at_us) for each in found] == [
        (RecordKind.OPENED, first, 0),
        (RecordKind.OPENED, second, 0),
        (RecordKind.CLOSED, first, 1500),
    ]
