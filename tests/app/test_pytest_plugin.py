"""The fixtures that other people's tests use, in a pytest run of its own."""

import importlib.util
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

pytestmark = pytest.mark.client

USERS_TEST = """
import pulsar
import pytest

seen = []


def test_fresh(pulsar_cluster):
    seen.append(pulsar_cluster)
    client = pulsar.Client(pulsar_cluster.service_url)
    client.create_producer("mine").send(b"x")
    client.close()
    assert len(pulsar_cluster.brokers) == 3


def test_fresh_again(pulsar_cluster):
    assert seen[0] is not pulsar_cluster
    assert pulsar_cluster.owner("mine") is None


@pytest.mark.parametrize("_", range(2))
def test_a_namespace_of_its_own(pulsar_cluster_session, pulsar_namespace, _):
    assert pulsar_namespace not in seen
    seen.append(pulsar_namespace)
    client = pulsar.Client(pulsar_cluster_session.service_url)
    client.create_producer(f"persistent://{pulsar_namespace}/t").send(b"x")
    client.close()


def test_shared(pulsar_cluster_module):
    seen.append(pulsar_cluster_module)


def test_shared_again(pulsar_cluster_module):
    assert seen[-1] is pulsar_cluster_module
"""

USERS_OPTIONS = """
import pytest


@pytest.fixture(scope="session")
def pulsar_cluster_options():
    return {"brokers": 1, "config": {"defaultNumberOfNamespaceBundles": 2}}


def test_options(pulsar_cluster):
    assert len(pulsar_cluster.brokers) == 1
    assert "0x80000000" in pulsar_cluster.bundle("x")
"""

CLIENTS = """
import gc
import os

import pulsar
import pytest

MOST = 10


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="session", autouse=True)
def bounded():
    gc.freeze()
    gc.disable()
    before = descriptors()
    yield
    assert descriptors() < before + MOST


@pytest.mark.parametrize("number", range(12))
def test_client(pulsar_cluster, number):
    client = pulsar.Client(pulsar_cluster.service_url)
    consumer = client.subscribe("t", "s")
    client.create_producer("t").send(b"x")
    consumer.receive(20_000)
    client.close()
"""


ASYNC = """
import asyncio

import pulsar
import pytest

seen = set()


@pytest.mark.asyncio
@pytest.mark.parametrize("number", range(4))
async def test_in_a_loop(pulsar_cluster_session, pulsar_namespace, number):
    assert pulsar_namespace not in seen
    seen.add(pulsar_namespace)
    client = pulsar.Client(pulsar_cluster_session.service_url)
    producer = client.create_producer(f"persistent://{pulsar_namespace}/t")
    loop = asyncio.get_running_loop()
    sent = loop.create_future()
    producer.send_async(b"x", lambda *said: loop.call_soon_threadsafe(sent.set_result, said))
    result, _ = await sent
    assert result == pulsar.Result.Ok
    client.close()
"""


def run_pytest(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory), *more],
        capture_output=True,
        text=True,
        cwd=directory,
        check=False,
    )


def test_many_tests_leave_no_descriptors_of_their_clients(tmp_path: Path) -> None:
    (tmp_path / "test_clients.py").write_text(CLIENTS)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_users_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    (tmp_path / "test_options.py").write_text(USERS_OPTIONS)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_users_coroutines_pass_and_in_several_processes(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    """A cluster runs in a thread of its own, so a test's loop is free; each worker has its own."""
    (tmp_path / "test_coroutines.py").write_text(ASYNC)
    done = run_pytest(tmp_path, *more)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_pytest_rewrites_no_assertions_of_the_packages_modules() -> None:
    """Its finder, asked for each of them, made a first test 0.15 s slower."""
    spec = importlib.util.find_spec("counterpoise.app.clusters.embedded")
    assert spec is not None
    assert isinstance(spec.loader, SourceFileLoader)


def test_the_plugin_costs_nothing_until_it_is_used() -> None:
    script = (
        "import sys, counterpoise.app.pytest_plugin\n"
        "heavy = {'aiohttp', 'numpy', 'uvloop', 'google.protobuf', 'kazoo'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
