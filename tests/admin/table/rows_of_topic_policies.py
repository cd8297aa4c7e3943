"""Every policy that a topic may have, by both names that ``pulsar-admin`` has for it."""

from tests.admin.table.row import PARTED, TOPIC, Row, policy, rows

RATE = "-md 100 -bd 2000 -dt 2"
BOTH = ("", "-ap")


def of(group: str, name: str, value: str, *, applied: bool = True) -> list[Row]:
    """One policy of the topic, asked for with what holds where the tool can."""
    return policy(group, name, value, TOPIC, get=BOTH if applied else ("",))


def backlog_quota(group: str, get: str) -> list[Row]:
    ask = f"{group} {get} {TOPIC}\n{group} {get} -ap {TOPIC}\n"
    return rows(
        f"""{ask}
        {group} set-backlog-quota -l 10M -p producer_exception {TOPIC}
        {group} set-backlog-quota -lt 60 -p producer_exception -t message_age {TOPIC}
        {ask}
        {group} remove-backlog-quota {TOPIC}
        {group} remove-backlog-quota -t message_age {TOPIC}
        {ask}"""
    )


def replication_clusters(group: str) -> list[Row]:
    """The one policy whose command of ``topicPolicies`` does not wait until it is set."""
    ask = f"topicPolicies get-replication-clusters {TOPIC}"
    found = of(group, "replication-clusters", "-c standalone")
    waits = {"set": f"client wait_until said {ask}", "remove": f"client wait_until unsaid {ask}"}
    return [
        each
        for row in found
        for each in (row, *rows(waits.get(row.command[1].partition("-")[0], "")))
    ]


ALIKE = [
    row
    for group in ("topicPolicies", "topics")
    for row in (
        *of(group, "message-ttl", "-t 120"),
        *of(group, "retention", "-t 3h -s 10M"),
        *of(group, "delayed-delivery", "-e -t 2s -md 1h"),
        *of(group, "dispatch-rate", RATE),
        *of(group, "subscription-dispatch-rate", RATE),
        *of(group, "replicator-dispatch-rate", RATE),
        *of(group, "subscribe-rate", "-sr 5 -st 10"),
        *of(group, "compaction-threshold", "-t 10M"),
        *of(group, "max-producers", "-p 11"),
        *of(group, "max-consumers", "-c 12"),
        *of(group, "inactive-topic-policies", "-e -t 1h -m delete_when_no_subscriptions"),
        *of(group, "max-unacked-messages-per-consumer", "-m 15"),
        *of(group, "max-unacked-messages-per-subscription", "-m 14"),
        *replication_clusters(group),
        *of(group, "persistence", "-e 1 -w 1 -a 1 -r 2.5", applied=False),
        *of(group, "publish-rate", "-m 100 -b 2000", applied=False),
        *of(group, "deduplication", "-e", applied=False),
        *of(group, "deduplication-snapshot-interval", "-i 100", applied=False),
        *of(group, "max-message-size", "-m 1000", applied=False),
        *of(group, "max-consumers-per-subscription", "-c 13", applied=False),
        *of(group, "subscription-types-enabled", "-t Shared,Failover", applied=False),
    )
]

TOPIC_POLICIES = [
    *ALIKE,
    *backlog_quota("topicPolicies", "get-backlog-quota"),
    *of("topicPolicies", "max-subscriptions-per-topic", "-s 7", applied=False),
    *of("topicPolicies", "schema-compatibility-strategy", "-s BACKWARD"),
    *of("topicPolicies", "entry-filters-per-topic", "-efn keep"),
    *policy("topicPolicies", "auto-subscription-creation", "-e", TOPIC, get=("", "-a")),
    *policy("topicPolicies", "dispatcher-pause-on-ack-state-persistent", "", TOPIC, get=("", "-a")),
    *rows(
        f"""
        topicPolicies set-subscription-dispatch-rate -s sub {RATE} {TOPIC}
        topicPolicies get-subscription-dispatch-rate -s sub {TOPIC}
        topicPolicies get-subscription-dispatch-rate -s other -ap {TOPIC}
        topicPolicies remove-subscription-dispatch-rate -s sub {TOPIC}
        topicPolicies get-subscription-dispatch-rate -s sub {TOPIC}
        topicPolicies set-retention -g -t 3h -s 10M {TOPIC}
        topicPolicies get-retention -g {TOPIC}
        topicPolicies get-retention {TOPIC}
        topicPolicies remove-retention -g {TOPIC}
        topicPolicies get-retention -g {TOPIC}
        topicPolicies set-max-producers -p 5 {PARTED}
        topicPolicies get-max-producers {PARTED}
        topicPolicies get-max-producers {PARTED}-partition-0
        topicPolicies set-max-producers -p -5 {TOPIC}
        topicPolicies delete {PARTED}
        topicPolicies get-max-producers {PARTED}
        topicPolicies get-max-producers persistent://acme/app/none
        """
    ),
    *backlog_quota("topics", "get-backlog-quotas"),
    *of("topics", "maxProducers", "-p 11"),
    *of("topics", "max-subscriptions", "-m 7", applied=False),
    *of("topics", "max-unacked-messages-on-consumer", "-m 15"),
    *of("topics", "max-unacked-messages-on-subscription", "-m 14"),
    *rows(
        f"""
        topics enable-deduplication {TOPIC}
        topics get-deduplication-enabled {TOPIC}
        topics disable-deduplication {TOPIC}
        topics get-deduplication-enabled {TOPIC}
        topics remove-deduplication {TOPIC}
        topics get-schema-validation-enforce {TOPIC}
        topics set-schema-validation-enforce -e {TOPIC}
        topics get-schema-validation-enforce {TOPIC}
        topics get-schema-validation-enforce -ap {TOPIC}
        """
    ),
]
