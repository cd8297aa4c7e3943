"""The meaning of each series of `/metrics`, for its HELP line and the documentation's page.

A test compares the tables with what brokers serve: every series is listed with its labels, and no
series is listed that no broker serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.broker.face import LATENCIES_MS


@dataclass(frozen=True, slots=True)
class MetricGroup:
    """The metrics of one subject, which all have the same labels, with their meanings."""

    title: str
    labels: tuple[str, ...]
    meanings: Mapping[str, str]
    when: str = ""
    """What has to be for it to be there; empty: always."""


_OF_BROKER = ("cluster", "broker", "metric")
_OF_TOPIC = ("cluster", "namespace", "topic")
_EXTENSIBLE = "under the extensible load manager"
_OF_LIMIT = ("cluster", "level", "subject")

GROUPS: Final = (
    MetricGroup(
        "The broker",
        ("cluster",),
        {
            "pulsar_broker_topics_count": "Topics that are loaded",
            "pulsar_broker_subscriptions_count": "Subscriptions of loaded topics",
            "pulsar_broker_producers_count": "Producers that are connected",
            "pulsar_broker_consumers_count": "Consumers that are connected",
            "pulsar_broker_rate_in": "Messages/s published",
            "pulsar_broker_rate_out": "Messages/s delivered",
            "pulsar_broker_throughput_in": "Bytes/s published",
            "pulsar_broker_throughput_out": "Bytes/s delivered",
            "pulsar_broker_storage_size": "Bytes that loaded topics store",
            "pulsar_broker_msg_backlog": "Entries that subscriptions have before them",
            "pulsar_broker_publish_latency_count": "Entries that were stored since it started",
            "pulsar_broker_publish_latency_sum": "Milliseconds that all of them took, added up",
            "process_start_time_seconds": "When the broker started, in seconds since 1970",
            "pulsar_broker_throttled_connections": "Connections of which something is held back",
            "counterpoise_connection_received_bytes_total": "Bytes read from clients",
            "counterpoise_connection_sent_bytes_total": "Bytes written to clients",
        },
    ),
    MetricGroup(
        "Namespaces",
        ("cluster", "namespace"),
        {"pulsar_topics_count": "Loaded topics of the namespace"},
    ),
    MetricGroup(
        "Connections",
        _OF_BROKER,
        {
            "pulsar_active_connections": "Connections that are open",
            "pulsar_connection_created_total_count": "Connections that were admitted",
            "pulsar_connection_closed_total_count": "Connections that have ended",
        },
    ),
    MetricGroup(
        "Connections that are not read",
        ("cluster", "reason"),
        {
            "counterpoise_connection_pauses_total": "How often a connection was not read on",
            "counterpoise_connections_paused": "Connections that are not read from now",
        },
    ),
    MetricGroup(
        "Background tasks",
        ("cluster", "task"),
        {
            "counterpoise_background_failures_total": "Failures of a background task, which began "
            "again"
        },
        "once one has failed",
    ),
    MetricGroup(
        "Load",
        _OF_BROKER,
        {
            "pulsar_lb_cpu_usage": "Use of the processors, in percent",
            "pulsar_lb_memory_usage": "Use of the memory, in percent",
            "pulsar_lb_directMemory_usage": "Use of direct memory, in percent",
            "pulsar_lb_bandwidth_in_usage": "Use of the network inwards, in percent",
            "pulsar_lb_bandwidth_out_usage": "Use of the network outwards, in percent",
        },
    ),
    MetricGroup(
        "Load as the extensible load manager sees it",
        (*_OF_BROKER, "feature"),
        {"pulsar_lb_resource_usage": "Weighted use of the busiest resource, as a fraction"},
        _EXTENSIBLE,
    ),
    MetricGroup(
        "Load of the whole cluster",
        (*_OF_BROKER, "feature", "stat"),
        {"pulsar_lb_resource_usage_stats": "Mean and deviation of all brokers' weighted use"},
        f"{_EXTENSIBLE}, from the leader",
    ),
    MetricGroup(
        "Bundles",
        ("cluster", "broker", "bundle", "metric"),
        {
            "pulsar_bundle_msg_rate_in": "Messages/s published to the bundle",
            "pulsar_bundle_msg_rate_out": "Messages/s delivered from the bundle",
            "pulsar_bundle_topics_count": "Loaded topics of the bundle",
            "pulsar_bundle_consumer_count": "Consumers of the bundle's topics",
            "pulsar_bundle_producer_count": "Producers of the bundle's topics",
            "pulsar_bundle_msg_throughput_in": "Bytes/s published to the bundle",
            "pulsar_bundle_msg_throughput_out": "Bytes/s delivered from the bundle",
        },
        "unless `exposeBundlesMetricsInPrometheus=false`",
    ),
    MetricGroup(
        "Ownership",
        _OF_BROKER,
        {
            "counterpoise_owned_bundles": "Bundles that the broker serves",
            "counterpoise_ownership_repairs_total": "Bundles of dead brokers that the leader gave "
            "away",
            "counterpoise_leader": "1 on the broker that leads the cluster",
            "pulsar_lb_unload_broker_total": "Brokers that this one, as the leader, moved bundles "
            "away from, summed over its rounds (PIP-192's slides: `pulsar_lb_unload_broker_count`)",
            "pulsar_lb_unload_bundle_total": "Bundles that were unloaded here "
            "(PIP-192's slides: `pulsar_lb_unload_bundle_count`)",
            "pulsar_lb_bundles_split_total": "Bundles that were split here",
        },
    ),
    MetricGroup(
        "Bundles as a dashboard of Pulsar's counts them",
        ("cluster", "cache"),
        {"caffeine_cache_estimated_size": "Bundles that the broker serves"},
    ),
    MetricGroup(
        "What came of moves and splits",
        (*_OF_BROKER, "result", "reason"),
        {
            "pulsar_lb_unload_broker_breakdown_total": "Unloads by how they ended, and why they "
            "were asked for",
            "pulsar_lb_bundles_split_breakdown_total": "Splits by how they ended, and why they "
            "were asked for",
        },
    ),
    MetricGroup(
        "What came of placements",
        (*_OF_BROKER, "result"),
        {"pulsar_lb_assign_broker_breakdown_total": "Bundles that a broker was chosen for here"},
    ),
    MetricGroup(
        "The channel of bundles' states: lookups",
        (*_OF_BROKER, "state", "result"),
        {"pulsar_sunit_state_chn_owner_lookup_total": "Lookups by the state of the bundle"},
        _EXTENSIBLE,
    ),
    MetricGroup(
        "The channel of bundles' states: records",
        (*_OF_BROKER, "event", "result"),
        {
            "pulsar_sunit_state_chn_event_publish_ops_total": "Records that were written",
            "pulsar_sunit_state_chn_subscribe_ops_total": "Records that were read",
        },
        _EXTENSIBLE,
    ),
    MetricGroup(
        "The channel of bundles' states: cleaning up",
        (*_OF_BROKER, "result"),
        {
            "pulsar_sunit_state_chn_cleanup_ops_total": "Cleanings that failed",
            "pulsar_sunit_state_chn_inactive_broker_cleanup_ops_total": "Cleanings after a broker "
            "that is gone",
        },
        _EXTENSIBLE,
    ),
    MetricGroup(
        "The channel of bundles' states: bundles",
        _OF_BROKER,
        {
            "pulsar_sunit_state_chn_orphan_su_cleanup_ops_total": "Bundles without an owner that "
            "were repaired",
            "pulsar_sunit_state_chn_su_tombstone_cleanup_ops_total": "Records that were taken away",
            "pulsar_sunit_state_chn_owned_su_total": "Bundles that the broker serves",
        },
        _EXTENSIBLE,
    ),
    MetricGroup(
        "Transaction coordinators",
        ("cluster", "coordinator_id"),
        {
            "pulsar_txn_active_count": "Transactions that have not ended",
            "pulsar_txn_created_total": "Transactions that were opened",
            "pulsar_txn_committed_total": "Transactions that were committed",
            "pulsar_txn_aborted_total": "Transactions that were aborted",
            "pulsar_txn_timeout_total": "Transactions that were aborted because their time was "
            "over",
            "pulsar_txn_append_log_total": "Records that the coordinator wrote to its log",
            **{
                f"pulsar_txn_execution_latency_le_{most}": "Committed transactions that were open "
                f"for at most {most} ms, and longer than the bound before"
                for most in LATENCIES_MS
            },
            "pulsar_txn_execution_latency_le_overflow": "Committed transactions that were open "
            "for longer",
        },
        "of each coordinator that a client has used on this broker",
    ),
    MetricGroup(
        "Transactions in topics",
        _OF_TOPIC,
        {
            "pulsar_txn_tb_active_total": "Transactions with messages in the topic that have not "
            "ended",
            "pulsar_txn_tb_committed_total": "Transactions that were committed in the topic",
            "pulsar_txn_tb_aborted_total": "Transactions that were aborted in the topic",
        },
        "of topics to which a transaction has published",
    ),
    MetricGroup(
        "Transactions on subscriptions",
        (*_OF_TOPIC, "subscription", "status"),
        {
            "pulsar_txn_tp_committed_count_total": "Transactions that were committed on the "
            "subscription",
            "pulsar_txn_tp_aborted_count_total": "Transactions that were aborted on the "
            "subscription",
        },
        "of subscriptions on which a transaction has acknowledged",
    ),
    MetricGroup(
        "Publish limits",
        _OF_LIMIT,
        {
            "counterpoise_publish_limit_waits_total": "How often producers began to wait at the "
            "limit",
            "counterpoise_publish_limit_waited_seconds_total": "How long producers waited there",
            "counterpoise_publish_limit_waiting_producers": "Producers that wait there now",
            "counterpoise_publish_limit_held_entries": "Entries that wait there",
            "counterpoise_publish_limit_held_bytes": "Bytes that wait there",
        },
        "once the limit was reached",
    ),
    MetricGroup(
        "Dispatch limits",
        _OF_LIMIT,
        {
            "counterpoise_dispatch_limit_waits_total": "How often subscriptions began to wait "
            "at the limit",
            "counterpoise_dispatch_limit_waited_seconds_total": "For how long subscriptions waited "
            "there",
            "counterpoise_dispatch_limit_waiting_subscriptions": "Subscriptions that wait there "
            "now",
        },
        "once the limit was reached",
    ),
    MetricGroup(
        "Resource groups",
        ("cluster", "ResourceGroup", "MonitoringClass"),
        {
            "pulsar_resource_group_calculated_messages_quota": "Messages/s of the group's limit "
            "that are this broker's part",
            "pulsar_resource_group_calculated_bytes_quota": "Bytes/s of the group's limit that are "
            "this broker's part",
            "pulsar_resource_group_messages_used": "Messages of the group that passed here",
            "pulsar_resource_group_bytes_used": "Bytes of the group that passed here",
        },
        "for groups with a limit that topics here use",
    ),
    MetricGroup(
        "Topics",
        _OF_TOPIC,
        {
            "pulsar_rate_in": "Messages/s published",
            "pulsar_rate_out": "Messages/s delivered",
            "pulsar_throughput_in": "Bytes/s published",
            "pulsar_throughput_out": "Bytes/s delivered",
            "pulsar_in_messages_total": "Messages published",
            "pulsar_in_bytes_total": "Bytes published",
            "pulsar_publish_rate_limit_times": "How often publishing had to wait for a limit",
            "pulsar_producers_count": "Producers that are connected",
            "pulsar_subscriptions_count": "Subscriptions",
            "pulsar_consumers_count": "Consumers that are connected",
            "pulsar_msg_backlog": "Entries that subscriptions have before them",
            "pulsar_storage_size": "Bytes stored",
            "pulsar_storage_logical_size": "Bytes stored, without copies",
            "pulsar_storage_backlog_size": "Bytes before the subscription that is furthest behind",
            "counterpoise_storage_lost_entries": "Entries that storage has lost",
        },
        "of each topic, and with `exposeTopicLevelMetricsInPrometheus=false` of each namespace, "
        "without the label `topic`",
    ),
    MetricGroup(
        "Subscriptions",
        (*_OF_TOPIC, "subscription"),
        {
            "pulsar_subscription_back_log": "Entries before the subscription",
            "pulsar_subscription_back_log_no_delayed": "Entries before the subscription that are "
            "due",
            "pulsar_subscription_delayed": "Entries that wait for their time",
            "pulsar_subscription_msg_rate_out": "Messages/s delivered",
            "pulsar_subscription_msg_throughput_out": "Bytes/s delivered",
            "pulsar_subscription_msg_rate_redeliver": "Messages/s delivered again",
            "pulsar_subscription_msg_ack_rate": "Messages/s acknowledged",
            "pulsar_subscription_unacked_messages": "Messages delivered and not acknowledged",
            "pulsar_subscription_blocked_on_unacked_messages": "1 while it waits for "
            "acknowledgements",
            "pulsar_subscription_consumers_count": "Consumers that are connected",
            "pulsar_subscription_last_acked_timestamp": "When a message was last acknowledged, in "
            "milliseconds since 1970",
            "pulsar_subscription_last_consumed_timestamp": "When a message was last sent, likewise",
            "pulsar_subscription_last_consumed_flow_timestamp": "When permits last came, likewise",
            "pulsar_out_messages_total": "Messages delivered",
            "pulsar_out_bytes_total": "Bytes delivered",
        },
        "with `exposeTopicLevelMetricsInPrometheus`; without it the last two are there for each "
        "namespace",
    ),
    MetricGroup(
        "Subscriptions held back",
        (*_OF_TOPIC, "subscription", "reason"),
        {
            "pulsar_subscription_dispatch_throttled_msg_events": "How often a limit in messages "
            "held delivery up",
            "pulsar_subscription_dispatch_throttled_bytes_events": "How often a limit in bytes "
            "held delivery up",
        },
        "with `exposeTopicLevelMetricsInPrometheus`",
    ),
    MetricGroup(
        "Consumers",
        (*_OF_TOPIC, "subscription", "consumer_name", "consumer_id"),
        {
            "pulsar_consumer_msg_rate_out": "Messages/s delivered",
            "pulsar_consumer_msg_throughput_out": "Bytes/s delivered",
            "pulsar_consumer_msg_rate_redeliver": "Messages/s delivered again",
            "pulsar_consumer_msg_ack_rate": "Messages/s acknowledged",
            "pulsar_consumer_unacked_messages": "Messages delivered and not acknowledged",
            "pulsar_consumer_blocked_on_unacked_messages": "1 while it waits for acknowledgements",
            "pulsar_consumer_available_permits": "Messages that it may still be sent",
        },
        "with `exposeConsumerLevelMetricsInPrometheus` besides",
    ),
)  # fmt: skip

MEANINGS: Final = {name: meaning for group in GROUPS for name, meaning in group.meanings.items()}
"""The meaning of each metric, by its name."""


def is_counter(name: str) -> bool:
    """Whether a metric never decreases. Pulsar exposes all of its metrics as gauges, counters
    too.
    """
    return name.startswith("counterpoise_") and name.endswith("_total")
