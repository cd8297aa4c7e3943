"""What holds for all tests: no judgement by how long a busy machine takes, signals as they were."""

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from counterpoise.app.clusters.zookeeper import ZooKeeper
from tests.decide_command import decide  # noqa: F401 - a fixture
from tests.scheduling import LongFilesFirst, first_long

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongFilesFirst:
    return LongFilesFirst(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=first_long)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while modules are imported: it takes a fifth of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Look no more through half a million objects of modules and tests for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """One for all tests of a process; each keeps to nodes of its own."""
    with ZooKeeper.start() as server:
        yield server


@pytest.fixture(autouse=True)
def _handlers_of_signals_put_back() -> Iterator[None]:
    """Undo what a verb does to a process of its own: `up` ignores signals in the end."""
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
