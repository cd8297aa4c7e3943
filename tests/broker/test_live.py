"""Settings that change while a broker runs: what it holds, and who hears of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.live import LiveSettings
from counterpoise.broker.namespaces.auto_creation import AutoTopicCreation
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.metadata import MemoryTree
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.options import ConfigError, Option, all_options, with_dynamic
from tests.broker.conftest import NAMESPACE, BrokersOfTest
from tests.waiting import WITHIN_S

STARTED = BrokerConfig(auto_topic_creation=AutoTopicCreation(partitions=5))


class Follower:
    """The settings of one broker, and a queue of the configurations that it heard of."""

    def __init__(self, tree: MemoryTree) -> None:
        self.store = tree.open()
        self.policies = Policies(self.store)
        self.live = LiveSettings(STARTED, self.store, self.policies)
        self.heard: asyncio.Queue[BrokerConfig] = asyncio.Queue()
        self.live.subscribe(lambda: self.heard.put_nowait(self.live.config))


@pytest.fixture
async def followers() -> AsyncIterator[tuple[Follower, Follower]]:
    tree, background = MemoryTree(), BackgroundTasks()
    made = Follower(tree), Follower(tree)
    for each in made:
        await each.live.start(background)
    yield made
    for each in made:
        each.live.close()
    await background.stop()


async def test_a_change_reaches_every_broker_and_a_removal_brings_back_its_own_value(
    followers: tuple[Follower, Follower],
) -> None:
    first, second = followers
    await first.policies.set_dynamic_setting("defaultNumPartitions", "7")
    for each in followers:
        config = await asyncio.wait_for(each.heard.get(), WITHIN_S)
        assert config.auto_topic_creation.partitions == 7
        assert each.live.config is config
        assert each.live.changed == {"defaultNumPartitions": "7"}
    await second.policies.set_dynamic_setting("defaultNumPartitions", None)
    for each in followers:
        config = await asyncio.wait_for(each.heard.get(), WITHIN_S)
        assert config == STARTED


async def test_what_was_set_before_holds_from_the_start() -> None:
    tree, background = MemoryTree(), BackgroundTasks()
    await Follower(tree).policies.set_dynamic_setting("defaultNumPartitions", "9")
    late = Follower(tree)
    await late.live.start(background)
    assert late.live.config.auto_topic_creation.partitions == 9
    await background.stop()


async def test_a_value_that_cannot_be_used_is_ignored_and_logged(
    followers: tuple[Follower, Follower], caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = followers
    stored = (
        b'{"defaultNumPartitions": "none", "allowAutoTopicCreation": "false",'
        b' "clusterName": "other", "loadManagerClassName": "x"}'
    )
    await first.store.put(paths.DYNAMIC_SETTINGS, stored)
    config = await asyncio.wait_for(first.heard.get(), WITHIN_S)
    assert config.auto_topic_creation == AutoTopicCreation(allowed=False, partitions=5)
    assert config.cluster_name == "standalone"
    assert "defaultNumPartitions: 'none' is not" in caplog.text
    assert "loadManagerClassName" in caplog.text
    with pytest.raises(ConfigError):
        first.live.check("loadManagerClassName", "x")
    with pytest.raises(ConfigError):
        first.live.check("defaultNumPartitions", "0")


async def test_the_load_manager_stays_while_a_broker_runs(
    followers: tuple[Follower, Follower], caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = followers
    first.live.check("loadManagerClassName", MODULAR)
    with pytest.raises(ConfigError, match=r"loadManagerClassName: .* restart"):
        first.live.check("loadManagerClassName", EXTENSIBLE)
    # Another program may write it all the same.
    stored = {"loadManagerClassName": EXTENSIBLE, "loadBalancerBrokerMaxTopics": "7"}
    await first.store.put(paths.DYNAMIC_SETTINGS, json.dumps(stored).encode())
    config = await asyncio.wait_for(first.heard.get(), WITHIN_S)
    assert config.filters == replace(STARTED.filters, max_topics=7)
    assert "loadManagerClassName" in caplog.text


async def test_the_filters_go_on_when_another_load_manager_is_stored(
    brokers: BrokersOfTest,
) -> None:
    quiet = replace(brokers.load_report, min_interval_ms=600_000)
    one, full = await brokers.start_many(
        2, load_report=quiet, filters=FilterOptions(max_topics=7, distribute_evenly=False)
    )
    said = replace(full.load_report(), num_topics=8)
    heard = asyncio.Event()
    one.metadata.subscribe(lambda _: heard.set())
    await full.parts.load.registry.register(said)
    await asyncio.wait_for(heard.wait(), WITHIN_S)
    assert await one.report_of(full.id) == said
    await one.policies.set_dynamic_setting("loadManagerClassName", EXTENSIBLE)
    await one.live.refresh()
    bundles = (await one.namespaces.bundles(NAMESPACE)).bundles
    chosen = {await one.parts.bundles.placer.choose(each) for each in bundles * 8}
    assert chosen == {one.id}


def test_every_dynamic_option_of_a_broker_is_taken_up_and_no_other() -> None:
    started = BrokerConfig()
    for each in all_options(BrokerConfig):
        value = _another(each)
        changed = with_dynamic(started, {each.conf: value})
        assert (changed != started) == each.dynamic, each.conf


def _another(option: Option) -> str:
    """A value of an option that is not its default."""
    if option.choices:
        return next(each for each in option.choices if each != option.default)
    if option.kind is bool:
        return str(not option.default).lower()
    if option.kind is int:
        default = option.default or 0
        return str(default - 1 if default == option.high else default + 1)
    return str((option.default or 1.0) / 2) if option.kind is float else "another"
