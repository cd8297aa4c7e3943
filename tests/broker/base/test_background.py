"""Background tasks: a failure is logged, counted and restarted; a cancelled task ends."""

import asyncio
import logging

import pytest

from counterpoise.broker.base.background import BackgroundTasks, BackOff
from counterpoise.broker.base.errors import BrokerError
from counterpoise.metadata import MemoryTree
from counterpoise.names.bundle import BundleName
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.conftest import BrokersOfTest, client_of, in_thread
from tests.waiting import until

AT_ONCE = BackOff(first_s=0, most_s=0)


async def test_what_is_kept_begins_again_after_each_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "counterpoise.broker.base.background")
    background = BackgroundTasks(AT_ONCE)
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 4:
            raise ValueError("a bundle that no broker knows")

    await background.keep("the report", work)
    assert runs == 4
    assert background.failures == {"the report": 3}
    logged = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [each.getMessage() for each in logged] == [
        "the report failed: ValueError: a bundle that no broker knows; it begins again in 0 s"
    ] * 3
    assert all(each.exc_info is None for each in logged)
    where = [each for each in caplog.records if each.levelno == logging.DEBUG]
    assert [each.exc_info is not None for each in where] == [True] * 3


async def test_a_session_that_ends_is_a_warning_for_what_goes_on_in_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = BackgroundTasks(AT_ONCE)
    store = MemoryTree().open()

    async def work() -> None:
        if background.failures:
            store.come_back()
        await store.get("/rates")

    store.lose()
    await background.keep("rate limits", work)
    store.lose()
    await asyncio.wait([background.start("closing", store.get("/rates"))])
    await until(lambda: background.failures.total() == 2, "both failures are logged")
    assert [(each.levelname, each.getMessage().partition(":")[0]) for each in caplog.records] == [
        ("WARNING", "rate limits"),
        ("ERROR", "closing failed"),
    ]


async def test_a_cancellation_that_is_not_its_own_is_a_failure() -> None:
    """Something it waited for was cancelled: a task that took that for its end would be missed."""
    background = BackgroundTasks(AT_ONCE)
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

    await background.keep("the follower", work)
    assert runs == 2
    assert background.failures == {"the follower": 1}


async def test_what_is_cancelled_ends_even_between_two_runs() -> None:
    background = BackgroundTasks(BackOff(first_s=3600))
    failed = asyncio.Event()

    async def work() -> None:
        failed.set()
        raise ValueError

    task = background.keep("the report", work)
    await failed.wait()
    assert background.running == ["the report"]
    await background.stop()
    assert task.cancelled()
    assert background.running == []


async def test_work_that_was_cancelled_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    background = BackgroundTasks()
    background.start("closing", asyncio.sleep(3600))
    await background.stop()
    await asyncio.sleep(0)
    assert (background.failures, caplog.records) == ({}, [])


async def test_a_failure_of_work_that_runs_once_is_logged_unless_it_is_expected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = BackgroundTasks()

    async def work() -> None:
        raise KeyError("x")

    for expected in ((), (LookupError,)):
        task = background.start("closing", work(), expected=expected)
        await asyncio.wait([task])
        assert isinstance(task.exception(), KeyError)
    await until(lambda: background.failures == {"closing": 1}, "the first one is counted")
    assert [each.getMessage() for each in caplog.records] == ["closing failed: KeyError: 'x'"]


@pytest.mark.parametrize(
    ("pause_s", "ran_s", "next_s"),
    [(0, 0, 1), (1, 0, 2), (32, 0, 60), (60, 0, 60), (60, 61, 1), (60, 60, 60)],
)
def test_pauses_double_up_to_a_minute(pause_s: float, ran_s: float, next_s: float) -> None:
    assert BackOff().after(pause_s, ran_s) == next_s


async def test_a_topic_without_a_bundle_does_not_end_the_load_report(
    brokers: BrokersOfTest,
) -> None:
    """A namespace's policies go while a topic of it is loaded: the others are still reported."""
    broker = await brokers.start()
    client = client_of(broker)
    await in_thread(lambda: client.create_producer("public/default/stays"))
    await in_thread(lambda: client.create_producer("public/default/orphan"))
    orphan = next(each for each in broker.topics.loaded if each.local_name == "orphan")
    bundle_of = broker.namespaces.bundle_of

    def without_orphan(topic: TopicName) -> BundleName:
        if topic == orphan:
            raise BrokerError(ServerError.ServiceNotReady, "no such bundle")
        return bundle_of(topic)

    broker.namespaces.bundle_of = without_orphan  # type: ignore[method-assign]
    await until(lambda: broker.load_report().num_topics == 1, "the other topic is reported")
    assert "the load report" in broker.background.running
    assert not broker.background.failures
    await in_thread(client.close)
