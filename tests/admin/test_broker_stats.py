"""What a broker says of itself: load report, topics by bundle, metrics."""

from collections.abc import Callable

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families

from counterpoise import Cluster
from tests.admin.conftest import Api

Connect = Callable[[], pulsar.Client]

pytestmark = pytest.mark.client


def test_the_load_report_is_local_broker_data(api: Api, cluster: Cluster) -> None:
    report = api.get("/admin/v2/broker-stats/load-report")
    assert report["loadReportType"] == "LocalBrokerData"
    assert report["webServiceUrl"] == cluster.brokers[0].admin_url
    for resource in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"):
        assert set(report[resource]) == {"usage", "limit"}
    assert report["loadManagerClassName"].endswith(".ModularLoadManagerImpl")


def test_topics_are_listed_by_namespace_bundle_and_domain(
    cluster: Cluster, namespace: str, connect: Connect
) -> None:
    producer = connect().create_producer(f"persistent://{namespace}/topic")
    producer.send(b"hello")
    owner = cluster.owner(f"{namespace}/topic")
    assert owner is not None
    answer = Api(owner.admin_url).get("/admin/v2/broker-stats/topics")
    topics = answer[namespace]["0x00000000_0xffffffff"]["persistent"]
    figures = topics[f"persistent://{namespace}/topic"]
    assert figures["msgInCount"] == 1
    assert figures["producerCount"] == 1
    for each in cluster.brokers:
        if each is not owner:
            assert namespace not in Api(each.admin_url).get("/admin/v2/broker-stats/topics")


def test_metrics_name_the_cluster_and_escape_what_clients_named(
    cluster: Cluster, namespace: str, connect: Connect
) -> None:
    connect().create_producer(f'persistent://{namespace}/say "x"').send(b"hello")
    owner = cluster.owner(f'{namespace}/say "x"')
    assert owner is not None
    families = [*text_string_to_metric_families(Api(owner.admin_url).get("/metrics/"))]
    types = {each.name: each.type for each in families}
    assert len(types) == len(families), "a name is there twice"
    assert {"pulsar_lb_cpu_usage", "pulsar_lb_bandwidth_in_usage", "pulsar_rate_in"} <= set(types)
    for family in families:
        ours = family.name.startswith("counterpoise_")
        assert ours or family.type == "gauge", "Pulsar calls everything a gauge"
        assert all(each.labels["cluster"] == "standalone" for each in family.samples)
    topics = {each.labels.get("topic") for family in families for each in family.samples}
    assert f'persistent://{namespace}/say "x"' in topics


def test_metrics_as_json(api: Api) -> None:
    answer = api.get("/admin/v2/broker-stats/metrics")
    load = next(each for each in answer if each["dimensions"].get("metric") == "loadBalancing")
    assert {"brk_lb_cpu_usage", "brk_lb_memory_usage"} <= set(load["metrics"])
