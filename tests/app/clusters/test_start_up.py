"""What an embedded cluster loads before its first message: nothing that it may never need."""

import asyncio
import importlib.util
import subprocess
import sys
import urllib.request
from collections.abc import Sequence

import pytest

from counterpoise import Cluster
from counterpoise.app.clusters import lazy_web_server
from tests.ports import free_ports

NOT_NEEDED = (
    "aiohttp",
    "kazoo",
    "matplotlib",
    "numpy.ma",
    "pandas",
    "pyarrow",
    "pyspark",
    "rich",
    "sqlite3",
    "counterpoise.admin",
    "counterpoise.app.verbs",
    "counterpoise.broker.load.load_data",
    "counterpoise.broker.peers",
    "counterpoise.app.settings",
    "counterpoise.app.strategies",
    "counterpoise.decide.balancing.round",
    "counterpoise.decide.shedding.registry",
    "counterpoise.metadata.zk",
    "counterpoise.pipeline",
)
"""Packages that only an admin request, a balancer, a store on disk or another verb asks for."""

SCRIPT = """
import sys
import counterpoise
with counterpoise.Cluster(brokers=2) as cluster:
    assert all(each.alive for each in cluster.brokers)
    {then}
    loaded = set(sys.modules)
print(*sorted(loaded))
"""


def loaded_by(then: str) -> set[str]:
    """The modules of a process that started a cluster and did ``then`` with it."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(then=then)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def among(names: Sequence[str], loaded: set[str]) -> list[str]:
    return [each for each in names if each in loaded]


def test_a_cluster_starts_without_what_it_may_never_need() -> None:
    ours = [each for each in NOT_NEEDED if each.startswith("counterpoise.")]
    assert [each for each in ours if importlib.util.find_spec(each) is None] == []
    assert among(NOT_NEEDED, loaded_by("pass")) == []


def test_loading_it_leaves_the_search_for_garbage_as_it_was() -> None:
    for state in ("enable", "disable"):
        script = (
            f"import gc; gc.{state}(); before = gc.isenabled(); from counterpoise import Cluster; "
            "raise SystemExit(gc.isenabled() is not before)"
        )
        done = subprocess.run([sys.executable, "-c", script], timeout=250, check=False)
        assert done.returncode == 0, state


def test_a_request_loads_the_admin_api() -> None:
    ask = "import urllib.request as r; r.urlopen(cluster.admin_url + '/metrics').read()"
    assert among(("aiohttp", "counterpoise.admin.server"), loaded_by(ask)) == [
        "aiohttp",
        "counterpoise.admin.server",
    ]


def test_every_broker_answers_once_it_is_asked() -> None:
    with Cluster(brokers=2) as cluster:
        for each in cluster.brokers:
            for _ in range(2):
                with urllib.request.urlopen(f"{each.admin_url}/admin/v2/brokers/health") as answer:
                    assert answer.read() == b"ok"


def test_an_admin_api_that_never_served_gives_its_ports_back() -> None:
    port = free_ports()
    for _ in range(2):
        with Cluster(brokers=1, config={"webServicePort": port}) as cluster:
            assert cluster.admin_url.endswith(f":{port}")


def test_who_came_while_it_could_not_be_loaded_is_answered_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, tries = lazy_web_server.make_web_server, iter((True, False))

    def failing_once(*of_server: object) -> object:
        if next(tries):
            raise OSError(24, "Too many open files")
        return make(*of_server)  # type: ignore[arg-type]

    monkeypatch.setattr(lazy_web_server, "make_web_server", failing_once)
    with Cluster(brokers=1) as cluster:
        with urllib.request.urlopen(f"{cluster.admin_url}/admin/v2/brokers/health") as answer:
            assert answer.read() == b"ok"
        assert next(tries, None) is None


async def test_a_request_and_the_end_at_once_leave_nothing_behind() -> None:
    port = free_ports()
    cluster = await asyncio.to_thread(Cluster(brokers=1, config={"webServicePort": port}).start)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.to_thread(cluster.stop)
    writer.close()
    with pytest.raises(OSError, match=r"refused|Connect"):
        await asyncio.open_connection("127.0.0.1", port)
