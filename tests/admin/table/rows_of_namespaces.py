"""Namespaces: what they are made of, and every policy that they may have."""

from tests.admin.table.row import NAMESPACE, TENANT, Row, policy, rows

MADE = rows(
    f"""
    namespaces list {TENANT}
    namespaces create {NAMESPACE} --bundles 4
    namespaces create {NAMESPACE}
    namespaces create {TENANT}/wide --clusters standalone
    namespaces create absent/app
    namespaces list {TENANT}
    namespaces list absent
    namespaces policies {NAMESPACE}
    namespaces bundles {NAMESPACE}
    namespaces topics {NAMESPACE}
    namespaces destinations {NAMESPACE}
    namespaces policies {TENANT}/none
    """
)

PERMISSIONS = rows(
    f"""
    namespaces permissions {NAMESPACE}
    namespaces grant-permission --role dev --actions produce,consume {NAMESPACE}
    namespaces grant-permission --role dev --actions fly {NAMESPACE}
    namespaces permissions {NAMESPACE}
    namespaces grant-subscription-permission -s sub -rs dev,ops {NAMESPACE}
    namespaces subscription-permission {NAMESPACE}
    namespaces revoke-subscription-permission -s sub -r dev {NAMESPACE}
    namespaces subscription-permission {NAMESPACE}
    namespaces revoke-permission --role dev {NAMESPACE}
    namespaces revoke-permission --role dev {NAMESPACE}
    namespaces permissions {NAMESPACE}
    """
)

RATE = "-md 100 -bd 2000 -dt 2"


def of(name: str, value: str, *, remove: bool = True) -> list[Row]:
    """One policy of the namespace."""
    return policy("namespaces", name, value, NAMESPACE, remove=remove)


POLICIES = [
    *of("clusters", "-c standalone", remove=False),
    *of("allowed-clusters", "-c standalone", remove=False),
    *of("subscription-types-enabled", "-t Shared,Failover"),
    *rows(
        f"""
        namespaces get-backlog-quotas {NAMESPACE}
        namespaces set-backlog-quota -l 10M -p producer_request_hold {NAMESPACE}
        namespaces set-backlog-quota -lt 3600 -p consumer_backlog_eviction -t message_age \
          {NAMESPACE}
        namespaces get-backlog-quotas {NAMESPACE}
        namespaces remove-backlog-quota -t message_age {NAMESPACE}
        namespaces get-backlog-quotas {NAMESPACE}
        namespaces remove-backlog-quota {NAMESPACE}
        namespaces get-backlog-quotas {NAMESPACE}
        """
    ),
    *of("persistence", "-e 1 -w 1 -a 1 -r 2.5"),
    *of("message-ttl", "-ttl 120"),
    *of("max-subscriptions-per-topic", "-m 7"),
    *of("subscription-expiration-time", "-t 30"),
    *of("deduplication", "--enable"),
    *of("auto-topic-creation", "--enable -t partitioned -n 3"),
    *rows(f"namespaces set-auto-topic-creation --enable -t partitioned {NAMESPACE}"),
    *rows(f"namespaces set-auto-topic-creation --disable {NAMESPACE}"),
    *rows(f"namespaces get-auto-topic-creation {NAMESPACE}"),
    *rows(f"namespaces remove-auto-topic-creation {NAMESPACE}"),
    *of("auto-subscription-creation", "--enable"),
    *of("retention", "-t 3h -s 10M"),
    *rows(f"namespaces set-retention -t 0 -s 10M {NAMESPACE}"),
    *of("dispatch-rate", RATE),
    *of("dispatch-rate", f"{RATE} --relative-to-publish-rate"),
    *of("subscribe-rate", "-sr 5 -st 10"),
    *of("subscription-dispatch-rate", RATE),
    *of("publish-rate", "-m 100 -b 2000"),
    *of("replicator-dispatch-rate", RATE),
    *of("encryption-required", "--enable", remove=False),
    *of("encryption-required", "--disable", remove=False),
    *of("subscription-auth-mode", "-m Prefix", remove=False),
    *of("subscription-auth-mode", "-m None", remove=False),
    *of("delayed-delivery", "--enable -t 2s -md 1h"),
    *of("inactive-topic-policies", "-e -t 1h -m delete_when_subscriptions_caught_up"),
    *of("max-producers-per-topic", "-p 11"),
    *of("max-consumers-per-topic", "-c 12"),
    *of("max-consumers-per-subscription", "-c 13"),
    *rows(f"namespaces set-max-consumers-per-subscription -c -3 {NAMESPACE}"),
    *of("max-unacked-messages-per-subscription", "-c 14"),
    *of("max-unacked-messages-per-consumer", "-c 15"),
    *of("compaction-threshold", "-t 10M"),
    *of("offload-threshold", "-s 10M -t 60", remove=False),
    *of("offload-threshold", "-s -1 -t -1", remove=False),
    *of("schema-autoupdate-strategy", "-c Full", remove=False),
    *of("schema-compatibility-strategy", "-c BACKWARD", remove=False),
    *of("schema-compatibility-strategy", "-c UNDEFINED", remove=False),
    *of("is-allow-auto-update-schema", "--disable", remove=False),
    *of("is-allow-auto-update-schema", "--enable", remove=False),
    *of("schema-validation-enforce", "--enable", remove=False),
    *of("schema-validation-enforce", "--disable", remove=False),
    *rows(f"namespaces get-schema-validation-enforce -ap {NAMESPACE}"),
    *of("deduplication-snapshot-interval", "-i 100"),
    *of("max-topics-per-namespace", "-t 1000"),
    *of("entry-filters", "-efn keep"),
    *of("dispatcher-pause-on-ack-state-persistent", ""),
    *rows(
        f"""
        namespaces get-properties {NAMESPACE}
        namespaces set-property -k team -v payments {NAMESPACE}
        namespaces get-property -k team {NAMESPACE}
        namespaces get-property -k none {NAMESPACE}
        namespaces set-properties -p a=1,b=2 {NAMESPACE}
        namespaces get-properties {NAMESPACE}
        namespaces remove-property -k a {NAMESPACE}
        namespaces get-properties {NAMESPACE}
        namespaces clear-properties {NAMESPACE}
        namespaces get-properties {NAMESPACE}
        namespaces get-anti-affinity-group {NAMESPACE}
        namespaces set-anti-affinity-group -g apart {NAMESPACE}
        namespaces get-anti-affinity-group {NAMESPACE}
        namespaces get-anti-affinity-namespaces -p {TENANT} -c standalone -g apart
        namespaces delete-anti-affinity-group {NAMESPACE}
        namespaces get-anti-affinity-group {NAMESPACE}
        namespaces set-message-ttl -ttl -5 {NAMESPACE}
        namespaces get-message-ttl {TENANT}/none
        namespaces policies {NAMESPACE}
        """
    ),
]

BUNDLES = rows(
    f"""
    namespaces get-topic-positions -b 0x00000000_0x40000000 {NAMESPACE}
    namespaces split-bundle -b 0x00000000_0x40000000 {NAMESPACE}
    namespaces bundles {NAMESPACE}
    namespaces split-bundle -b 0x00000000_0x40000000 {NAMESPACE}
    namespaces split-bundle -b 0x40000000_0x80000000 -u -san specified_positions_divide -sb \
      1342177280 {NAMESPACE}
    namespaces bundles {NAMESPACE}
    namespaces split-bundle -b 0x80000000_0xc0000000 -san no_such_algorithm {NAMESPACE}
    namespaces split-bundle -bt LARGEST -san topic_count_equally_divide {NAMESPACE}
    namespaces unload -b 0x80000000_0xc0000000 {NAMESPACE}
    namespaces unload -b 0x12345678_0xc0000000 {NAMESPACE}
    namespaces unload -b 0x80000000_0xc0000000 -d absent:8080 {NAMESPACE}
    namespaces unload {NAMESPACE}
    """
)

BACKLOG = rows(
    f"""
    namespaces topics {NAMESPACE}
    namespaces topics -m NON_PERSISTENT {NAMESPACE}
    namespaces topics -ist {NAMESPACE}
    namespaces clear-backlog -force -s later {NAMESPACE}
    namespaces clear-backlog -force {NAMESPACE}
    namespaces unsubscribe -s later {NAMESPACE}
    namespaces unsubscribe -s none {NAMESPACE}
    """
)

DELETED = rows(
    f"""
    namespaces delete {NAMESPACE}
    namespaces delete -f {NAMESPACE}
    namespaces delete {NAMESPACE}
    namespaces delete {TENANT}/wide
    namespaces list {TENANT}
    tenants delete {TENANT}
    """
)
