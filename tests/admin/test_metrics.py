"""The series of `/metrics`: those that dashboards ask for, and how many there may be."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from counterpoise import Cluster
from counterpoise.admin.metrics.reference import GROUPS
from counterpoise.names.load_managers import EXTENSIBLE
from tests.admin.conftest import SILENT, Api
from tests.broker.connection.transactor import ASSIGNMENT, commit_one
from tests.waiting import found_soon

PULSARS = Path(__file__).with_name("pulsar_load_balancing_series.txt").read_text().splitlines()
"""Every selector of the load balancing dashboard that StreamNative publishes for Apache Pulsar."""
SELECTOR = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})?")
OURS = sorted(
    {
        selector
        for dashboard in (Path(__file__).parents[2] / "docs/grafana").glob("*.json")
        for panel in json.loads(dashboard.read_text())["panels"]
        for target in panel.get("targets", ())
        for selector in re.findall(r"(?:pulsar|counterpoise)_\w+(?:\{[^}]*\})?", target["expr"])
    }
)
"""Every selector of ours."""
NAMESPACES = "/admin/v2/namespaces"
IN_TRANSACTIONS = "persistent://public/default/in-transactions"
PAYLOAD = b"x" * 100
BURST = 4
"""More messages than a limited topic lets pass in a second."""
IDLE = re.compile(r"Failure|Skip|cleanup|bandwidth|directMemory|std|unload_broker_total")
"""What stays at nothing unless something goes wrong, a broker dies or the leader sheds load, and
what a host may not have."""

pytestmark = pytest.mark.client


def served(cluster: Cluster) -> list[Sample]:
    """Every sample of every broker."""
    return [
        sample
        for broker in cluster.brokers
        if broker.alive
        for family in text_string_to_metric_families(Api(broker.admin_url).get("/metrics/"))
        for sample in family.samples
    ]


def matching(samples: list[Sample], selector: str) -> list[Sample]:
    found = SELECTOR.fullmatch(selector)
    assert found, selector
    wanted = dict(re.findall(r'(\w+)="([^"]*)"', found["labels"] or ""))
    return [
        each
        for each in samples
        if each.name == found["name"] and wanted.items() <= each.labels.items()
    ]


def limited(api: Api) -> None:
    """Let clients of the namespace reach limits of every kind, at once and again and again."""
    group = {"publishRateInMsgs": 500, "dispatchRateInMsgs": 500}
    assert api("PUT", "/admin/v2/resourcegroups/few", group).status == 204
    where = f"{NAMESPACES}/public/measured"
    assert api("POST", f"{where}/resourcegroup/few").status == 204
    rate = {"publishThrottlingRateInMsg": 2, "publishThrottlingRateInByte": -1}
    assert api("POST", f"{where}/publishRate", rate).status == 204
    rate = {"dispatchThrottlingRateInMsg": 2, "ratePeriodInSecond": 1}
    assert api("POST", f"{where}/dispatchRate", rate).status == 204


@contextmanager
def loaded(
    brokers: int,
    prepare: Callable[[Api], None] = lambda api: None,
    wanted: frozenset[str] = frozenset(),
    **settings: Any,
) -> Iterator[tuple[Cluster, str]]:
    """A cluster in which messages were published and consumed, bundles unloaded and split."""
    settings["loadBalancerReportUpdateMinIntervalMillis"] = 100
    with Cluster(brokers=brokers, config=settings) as cluster:
        api = Api(cluster.admin_url)
        body = {"bundles": {"numBundles": 2}}
        assert api("PUT", f"{NAMESPACES}/public/measured", body).status == 204
        prepare(api)
        client = pulsar.Client(cluster.service_url, logger=SILENT)
        topics = [f"persistent://public/measured/t{number}" for number in range(4)]
        consumers = [client.subscribe(topic, "s", consumer_name="reads") for topic in topics]
        producers = [client.create_producer(topic) for topic in topics]
        bundle = cluster.bundle(topics[0]).rpartition("/")[2]
        where = f"{NAMESPACES}/public/measured/{bundle}"
        assert api("PUT", f"{where}/unload").status == 204
        producers[0].send(PAYLOAD)
        assert api("PUT", f"{where}/split").status == 204
        delivered = "pulsar_out_messages_total"
        if settings.get("exposeTopicLevelMetricsInPrometheus", True):
            delivered += f'{{topic="{topics[0]}",subscription="s"}}'

        def exchange() -> None:
            """At once, so that limits are reached however slow the machine is."""
            for producer in producers * BURST:
                producer.send_async(PAYLOAD, lambda *_: None)
            for consumer in consumers * BURST:
                consumer.acknowledge(consumer.receive(60_000))

        def is_reported() -> bool:
            exchange()
            samples = served(cluster)
            return is_measured(samples, delivered) and names(samples) >= wanted

        found_soon(is_reported, "brokers report their load")
        # A rate is that of the last measurement: from here on no broker takes one by itself.
        reporters = [each.running.parts.balancing.reporter for each in cluster.brokers]
        for reporter in reporters:
            cluster.do(reporter.stop())
        exchange()
        for reporter in reporters:
            cluster.do(reporter.measure())
        yield cluster, topics[0]
        client.close()


def is_measured(samples: list[Sample], delivered: str) -> bool:
    """Whether brokers have delivered a message where the topic is now, and reported their use of
    the host, to each other where they do.
    """
    reported = ["pulsar_lb_cpu_usage", delivered]
    if any(each.name == "pulsar_lb_resource_usage" for each in samples):
        reported.append('pulsar_lb_resource_usage_stats{stat="avg"}')
    return all(positive(samples, name) for name in reported)


def positive(samples: list[Sample], selector: str) -> bool:
    """Whether a broker serves the series with a value above 0."""
    return any(each.value > 0 for each in matching(samples, selector))


@pytest.fixture(scope="module")
def extensible() -> Iterator[list[Sample]]:
    settings = {
        "exposeConsumerLevelMetricsInPrometheus": True,
        "transactionCoordinatorEnabled": True,
    }
    both = frozenset(f"counterpoise_{kind}_limit_waits_total" for kind in ("publish", "dispatch"))
    with loaded(2, limited, both, loadManagerClassName=EXTENSIBLE, **settings) as (cluster, _):
        cluster.brokers[0].running.background.failures["a task"] += 1
        for topic in (ASSIGNMENT, IN_TRANSACTIONS):
            cluster.place(topic, cluster.brokers[0])
        owner = cluster.brokers[0].service_url
        commit_one(owner, owner, IN_TRANSACTIONS)
        yield served(cluster)


@pytest.mark.parametrize("selector", PULSARS)
def test_pulsars_dashboard_finds_its_series(extensible: list[Sample], selector: str) -> None:
    found = matching(extensible, selector)
    assert found, f"no broker serves {selector}"
    assert all(each.labels["cluster"] == "standalone" for each in found)
    if not IDLE.search(selector):
        assert positive(found, selector)


@pytest.mark.parametrize("selector", OURS)
def test_our_dashboard_finds_its_series(extensible: list[Sample], selector: str) -> None:
    assert matching(extensible, selector), f"no broker serves {selector}"


def names(samples: list[Sample]) -> set[str]:
    return {each.name for each in samples}


def test_each_series_says_what_it_means(api: Api) -> None:
    found = list(text_string_to_metric_families(api.get("/metrics")))
    assert sum(each.name.startswith("counterpoise_") for each in found) > 3
    assert [each.name for each in found if not each.documentation] == []


def test_the_reference_has_every_series_with_its_labels_and_no_other(
    extensible: list[Sample],
) -> None:
    documented = {name: {*group.labels} for group in GROUPS for name in group.meanings}
    labelled = {each.name: {*each.labels} for each in extensible}
    assert labelled == documented
    assert len(documented) == sum(len(group.meanings) for group in GROUPS), "one meaning each"


def test_the_ephemeral_locks_have_no_state_channel_and_the_rest() -> None:
    with loaded(1) as (cluster, topic):
        samples = served(cluster)
    assert not [name for name in names(samples) if "sunit_state_chn" in name]
    assert matching(samples, "pulsar_lb_unload_bundle_total")[0].value == 1
    by_admin = 'pulsar_lb_unload_broker_breakdown_total{result="Success",reason="Admin"}'
    assert [each.value for each in matching(samples, by_admin)] == [1], "no leader ordered it"
    assert matching(samples, "pulsar_lb_bundles_split_total")[0].value == 1
    assert matching(samples, "pulsar_active_connections")[0].value == 1
    assert sum(each.value for each in matching(samples, "pulsar_bundle_msg_rate_in")) > 0
    of_topic = f'topic="{topic}",subscription="s"'
    assert matching(samples, f"pulsar_out_messages_total{{{of_topic}}}")[0].value > 0
    assert not [name for name in names(samples) if name.startswith("pulsar_consumer_")]


def test_settings_say_which_series_a_broker_exposes() -> None:
    with loaded(
        1, exposeTopicLevelMetricsInPrometheus=False, exposeConsumerLevelMetricsInPrometheus=True
    ) as (cluster, _):
        samples = served(cluster)
        path = "/admin/v2/brokers/configuration/exposeBundlesMetricsInPrometheus/false"
        assert Api(cluster.admin_url)("POST", path).status == 204
        found_soon(
            lambda: not any(name.startswith("pulsar_bundle_") for name in names(served(cluster))),
            "the dynamic setting is read",
        )
    assert not [each for each in samples if "topic" in each.labels]
    assert not [name for name in names(samples) if name.startswith("pulsar_consumer_")]
    in_namespace = matching(samples, 'pulsar_in_messages_total{namespace="public/measured"}')
    assert len(in_namespace) == 1
    assert in_namespace[0].value > 0
    with loaded(1, exposeConsumerLevelMetricsInPrometheus=True) as (cluster, topic):
        label = f'{{topic="{topic}",consumer_name="reads"}}'
        # Its bundle was just moved: the consumer comes back by itself.
        permits = f"pulsar_consumer_available_permits{label}"
        found_soon(lambda: positive(served(cluster), permits), "it is back and has permits")


def test_publish_latency_is_that_of_the_entries_between_two_looks() -> None:
    with Cluster(brokers=1) as cluster:
        client = pulsar.Client(cluster.service_url, logger=SILENT)
        producer = client.create_producer("public/default/slow")
        producer.send(PAYLOAD)

        def total(of: str) -> float:
            return matching(served(cluster), f"pulsar_broker_publish_latency_{of}")[0].value

        before = total("count"), total("sum")
        with cluster.slow_disk(cluster.brokers[0], 0.2):
            for _ in range(3):
                producer.send(PAYLOAD)
        assert total("count") - before[0] == 3
        assert total("sum") - before[1] > 599, "ms; sums differ in their last digits"
        client.close()


def test_a_dead_brokers_bundles_are_counted_as_they_are_repaired() -> None:
    with loaded(2, loadManagerClassName=EXTENSIBLE) as (cluster, topic):
        owner = cluster.owner(topic)
        assert owner is not None
        cluster.kill(owner)
        repaired = "pulsar_sunit_state_chn_orphan_su_cleanup_ops_total"
        found_soon(lambda: positive(served(cluster), repaired), "an orphan is repaired")
        override = 'pulsar_sunit_state_chn_event_publish_ops_total{event="Override"}'
        assert positive(served(cluster), override)
