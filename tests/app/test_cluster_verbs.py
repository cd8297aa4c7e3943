"""What an operator types every day: brokers, bundles, topics, unload, split, completion."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.main import VERBS, main
from counterpoise.app.verbs import split
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionTrail
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.location import open_location
from tests.admin.conftest import SILENT
from tests.pipeline.fake_cluster import FakeCluster, wide_bundle

TOPIC = "persistent://public/default/watched"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers, and a topic with a producer, a consumer and a backlog of three."""
    with Cluster(brokers=2) as running:
        client = pulsar.Client(running.service_url, logger=SILENT)
        consumer = client.subscribe(TOPIC, "s")
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for _ in range(3):
            producer.send(b"x")
        yield running
        consumer.close()
        client.close()


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """One verb on the cluster: its status, what it printed, what it complained of."""

    def typed(*words: str, url: str = cluster.admin_url) -> tuple[int, str, str]:
        status = main([*words, "--admin-url", url])
        return status, *capsys.readouterr()

    return typed


def test_brokers(run: Run, cluster: Cluster) -> None:
    status, printed, _ = run("brokers")
    head, *lines = printed.splitlines()
    assert status == 0
    assert head.split()[:4] == ["BROKER", "LEADER", "BUNDLES", "TOPICS"]
    assert [line.split()[0] for line in lines] == sorted(each.id for each in cluster.brokers)
    rows = json.loads(run("brokers", "--json")[1])
    owner, leader = cluster.owner(TOPIC), next(it for it in cluster.brokers if it.is_leader)
    assert [each["broker"] for each in rows if each["leader"]] == [leader.id]
    assert [each["broker"] for each in rows if each["topics"]] == [getattr(owner, "id", None)]
    assert sum(each["producers"] + each["consumers"] for each in rows) == 2


def test_bundles_and_topics_are_those_that_are_loaded(run: Run, cluster: Cluster) -> None:
    owner = cluster.owner(TOPIC)
    assert owner is not None
    bundles = json.loads(run("bundles", "--json")[1])
    assert [
        (each["bundle"], each["broker"], each["topics"], each["backlog"]) for each in bundles
    ] == [(cluster.bundle(TOPIC), owner.id, 1, 3)]
    topics = json.loads(run("topics", "public/default", "--sort", "topic", "--json")[1])
    assert [(each["topic"], each["subscriptions"]) for each in topics] == [(TOPIC, 1)]
    assert TOPIC in run("topics")[1]


def test_a_topics_bundle_goes_to_the_named_broker(run: Run, cluster: Cluster) -> None:
    destination = next(each for each in cluster.brokers if each is not cluster.owner(TOPIC))
    status, printed, _ = run("unload", TOPIC, "--to", destination.id)
    assert (status, cluster.owner(TOPIC)) == (0, destination)
    assert printed.endswith(f"to {destination.id}\n")
    assert run("unload", cluster.bundle(TOPIC))[0] == 0
    assert run("unload", "public/default")[1] == "public/default: every bundle was unloaded\n"


def test_an_unload_is_kept_with_who_and_why_and_heeds_a_pause(
    run: Run, cluster: Cluster, tmp_path: Path
) -> None:
    before = cluster.owner(TOPIC)
    other = next(each for each in cluster.brokers if each is not before)
    (tmp_path / "journal").mkdir()
    by_hand = ("--history", str(tmp_path), "--who", "ann", "--why", "a hot disk")
    assert run("unload", TOPIC, "--to", other.id, *by_hand)[0] == 0
    [action] = ActionTrail(open_location(tmp_path)).actions()
    assert (action.kind, action.who, action.why) == (ActionKind.UNLOAD, "ann", "a hot disk")
    assert [(m.bundle, m.destination) for m in action.moves] == [(cluster.bundle(TOPIC), other.id)]
    write_control(open_location(tmp_path), Control(Wish.PAUSE, 1, "a release"))
    refused = run("unload", TOPIC, *by_hand)
    assert refused[0] == 2
    assert "a release" in refused[2]
    assert cluster.owner(TOPIC) is other


async def test_an_unload_that_no_broker_takes_in_time_has_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "journal").mkdir()
    async with FakeCluster() as fake:
        first, second = [await fake.add_broker() for _ in range(2)]
        fake.carry(first, wide_bundle(1), 1000.0)
        fake.takes_s = 1000.0
        words = ["unload", wide_bundle(1), "--to", second.name, "--wait", "0.1"]
        words += ["--admin-url", fake.admin_url, "--history", str(tmp_path)]
        assert await asyncio.to_thread(main, words) == 1
    said = capsys.readouterr()
    assert said.out == f"{wide_bundle(1)}: from {first.name} to no broker yet\n"
    assert f"{second.name} does not own it after 0.1 s" in said.err
    [action] = ActionTrail(open_location(tmp_path)).actions()
    assert [(move.source, move.status) for move in action.moves] == [(first.name, "unowned")]


def test_split_lists_the_parts(run: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = (int(each, 16) for each in cluster.bundle(TOPIC).rpartition("/")[2].split("_"))
    middle = (low + high) // 2
    status, printed, _ = run("split", TOPIC, "--algorithm", "range_equally_divide")
    assert status == 0
    assert printed.split() == [
        f"public/default/0x{low:08x}_0x{middle:08x}",
        f"public/default/0x{middle:08x}_0x{high:08x}",
    ]
    # As on Pulsar, a bundle of one topic is not cut at a position, although that is no error.
    monkeypatch.setattr(split, "HEARD_WITHIN_S", 0.1)
    status, printed, complained = run("split", TOPIC, "--at", hex(low + 1))
    assert (status, printed) == (1, "")
    assert "was not split" in complained


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("topics", "public/none"), "answers 404: Namespace does not exist"),
        (("topics", "public"), "public"),
        (("unload", TOPIC, "--to", "unknown:1"), "answers 409"),
        (("unload", "public/default", "--to", "unknown:1"), "name one bundle"),
        (("unload", "public/default/0x00000000_0x12345678"), "no such bundle now"),
        (("split", "public/default"), "name one of its bundles"),
        (("split", TOPIC, "--at", "1", "--algorithm", "range_equally_divide"), "--at goes with"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    run: Run, words: tuple[str, ...], complaint: str
) -> None:
    status, printed, complained = run(*words)
    assert (status, printed) == (2, "")
    assert complaint in complained


def test_a_cluster_that_is_not_there_is_reported(run: Run) -> None:
    status, _, complained = run("brokers", url="http://127.0.0.1:1,http://127.0.0.1:2")
    assert status == 2
    assert "http://127.0.0.1:2: " in complained
    assert "is it running?" in complained


def test_a_refusal_names_the_options_for_credentials(run: Run) -> None:
    with Cluster(brokers=1, tokens=True) as guarded:
        assert "--auth-plugin" in run("brokers", url=guarded.admin_url)[2]
        token = ("--auth-params", f"token:{guarded.security.token('admin')}")
        plugin = ("--auth-plugin", "org.apache.pulsar.client.impl.auth.AuthenticationToken")
        assert run("brokers", *plugin, *token, url=guarded.admin_url)[0] == 0


def test_bash_completes_verbs_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = """
    COMP_WORDS=(counterpoise %s); COMP_CWORD=%d; COMP_LINE="counterpoise %s"
    _shtab_counterpoise; echo "${COMPREPLY[@]}"
    """
    for words, wanted in (("dra", "drain"), ("split --al", "--algorithm")):
        asked = ask % (words, len(words.split()), words)
        done = subprocess.run(
            ["bash", "-c", script + asked], capture_output=True, text=True, check=True, timeout=30
        )
        assert done.stdout.split() == [wanted], done.stderr
    assert all(verb.name in script for verb in VERBS)
