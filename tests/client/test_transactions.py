"""Transactions by the official Java client: all or nothing, whatever happens to brokers."""

from collections.abc import Iterator

import pytest

from counterpoise import Cluster
from tests.client.official.driver import JAVA_ABSENT, Driver, Refused, java_command

pytestmark = pytest.mark.client

CONFIG = {"transactionCoordinatorEnabled": "true"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, config=CONFIG) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java(cluster: Cluster) -> Iterator[Driver]:
    command = java_command()
    if command is None:
        pytest.skip(JAVA_ABSENT)
    with Driver("java", command) as driver:
        driver("connect", url=cluster.service_url, within_s=60, transactions=True)
        yield driver


def all_that_comes(java: Driver, topic: str, subscription: str, count: int) -> list[str]:
    """As much as is sure to come, and what comes soon after that."""
    found = java("receive", topic=topic, subscription=subscription, count=count, within_s=60)
    more = java("receive", topic=topic, subscription=subscription, count=1, within_s=0.5)
    return [*found, *more]


def topic(name: str) -> str:
    return f"persistent://public/default/{name}"


def test_messages_come_with_the_commit_and_acknowledgements_count_with_it(java: Driver) -> None:
    source, target = topic("source"), topic("target")
    java("follow", topic=source, subscription="s")
    java("follow", topic=target, subscription="t")
    java("produce", topic=source, payload="in", count=3)
    received = java("receive", topic=source, subscription="s", count=3, within_s=60)
    assert received == ["in-0", "in-1", "in-2"]
    java("begin", name="one")
    java("produce_in", name="one", topic=target, payload="out", count=3)
    java("acknowledge_in", name="one", topic=source, subscription="s", texts=received)
    assert java("receive", topic=target, subscription="t", count=1, within_s=0.5) == []
    java("end", name="one", commit=True)
    found = java("receive", topic=target, subscription="t", count=3, within_s=60)
    assert found == ["out-0", "out-1", "out-2"]
    java("leave", topic=source, subscription="s")
    java("follow", topic=source, subscription="s")
    assert java("receive", topic=source, subscription="s", count=1, within_s=0.5) == []


def test_an_aborted_transaction_leaves_nothing(java: Driver) -> None:
    source, target = topic("source-2"), topic("target-2")
    java("follow", topic=source, subscription="s")
    java("follow", topic=target, subscription="t")
    java("produce", topic=source, payload="in", count=2)
    received = java("receive", topic=source, subscription="s", count=2, within_s=60)
    java("begin", name="two")
    java("produce_in", name="two", topic=target, payload="out", count=3)
    java("acknowledge_in", name="two", topic=source, subscription="s", texts=received)
    java("begin", name="other")
    with pytest.raises(Refused, match="TransactionConflict"):
        java("acknowledge_in", name="other", topic=source, subscription="s", texts=received[:1])
    java("end", name="two", commit=False)
    again = java("receive", topic=source, subscription="s", count=2, within_s=60)
    assert sorted(again) == received
    java("produce", topic=target, payload="plain", count=1)
    assert all_that_comes(java, target, "t", 1) == ["plain-0"]


def test_a_transaction_whose_time_is_over_is_aborted(java: Driver) -> None:
    target = topic("target-3")
    java("follow", topic=target, subscription="t")
    java("begin", name="late", timeout_s=5)
    java("produce_in", name="late", topic=target, payload="out", count=1)
    java("produce", topic=target, payload="plain", count=1)
    assert java("receive", topic=target, subscription="t", count=1, within_s=60) == ["plain-0"]
    with pytest.raises(Refused, match=r"TransactionNotFound|InvalidTxnStatus"):
        java("end", name="late", commit=True)


def test_half_a_batch_is_acknowledged_in_a_transaction(java: Driver) -> None:
    source = topic("source-4")
    java("follow", topic=source, subscription="s")
    java("begin", name="fill")
    java("produce_in", name="fill", topic=source, payload="in", count=2)
    java("end", name="fill", commit=True)
    received = java("receive", topic=source, subscription="s", count=2, within_s=60)
    java("begin", name="half")
    java("acknowledge_in", name="half", topic=source, subscription="s", texts=received[:1])
    java("end", name="half", commit=True)
    java("leave", topic=source, subscription="s")
    java("follow", topic=source, subscription="s")
    assert all_that_comes(java, source, "s", 1) == received[1:]


def test_cumulative_acknowledgements_count_once_committed(java: Driver) -> None:
    source = topic("source-5")
    java("follow", topic=source, subscription="s", kind="Exclusive")
    java("produce", topic=source, payload="in", count=3)
    received = java("receive", topic=source, subscription="s", count=3, within_s=60)
    for name, commit, left in (("back", False, received), ("on", True, received[2:])):
        java("begin", name=name)
        through = received[1:2]
        java(
            "acknowledge_in",
            name=name,
            topic=source,
            subscription="s",
            texts=through,
            cumulative=True,
        )
        java("end", name=name, commit=commit)
        java("leave", topic=source, subscription="s")
        java("follow", topic=source, subscription="s", kind="Exclusive")
        assert all_that_comes(java, source, "s", len(left)) == left
