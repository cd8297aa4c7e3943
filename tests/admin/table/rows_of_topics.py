"""Topics, their subscriptions and messages, and schemas."""

from tests.admin.table.row import NAMESPACE, PARTED, TOPIC, Row, rows

SUB = f"-s sub {TOPIC}"
PASSING = f"non-persistent://{NAMESPACE}/passing"

MADE = rows(
    f"""
    topics create {TOPIC} -m owner=ops
    topics create {TOPIC}
    topics create persistent://{NAMESPACE}/odd-partition-7
    topics create persistent://acme/none/t
    topics create-partitioned-topic {PARTED} -p 2 -m owner=dev
    topics create-partitioned-topic {PARTED} -p 2
    topics create-partitioned-topic persistent://{NAMESPACE}/none -p 0
    topics get-partitioned-topic-metadata {PARTED}
    topics get-partitioned-topic-metadata {TOPIC}
    topics update-partitioned-topic {PARTED} -p 3
    topics update-partitioned-topic {PARTED} -p 2
    topics update-partitioned-topic {TOPIC} -p 2
    topics get-partitioned-topic-metadata {PARTED}
    topics create-missed-partitions {PARTED}
    topics create-missed-partitions {TOPIC}
    topics create {PASSING}
    topics list {NAMESPACE}
    topics list -td persistent {NAMESPACE}
    topics list -td non_persistent {NAMESPACE}
    topics list -b 0x00000000_0x40000000 {NAMESPACE}
    topics list-partitioned-topics {NAMESPACE}
    topics list-partitioned-topics acme/none
    topics lookup {TOPIC}
    topics partitioned-lookup {PARTED}
    topics partitioned-lookup --sort-by-broker {PARTED}
    topics partitioned-lookup {TOPIC}
    topics bundle-range {TOPIC}
    topics get-properties {TOPIC}
    topics update-properties -p a=1 -p b=2 {TOPIC}
    topics get-properties {TOPIC}
    topics remove-properties -k a {TOPIC}
    topics get-properties {TOPIC}
    topics get-properties {PARTED}
    topics update-properties -p c=3 {PARTED}
    topics get-properties {PARTED}
    topics permissions {TOPIC}
    topics grant-permission -r dev -a produce,consume {TOPIC}
    topics permissions {TOPIC}
    topics revoke-permission -r dev {TOPIC}
    topics revoke-permission -r dev {TOPIC}
    topics permissions {TOPIC}
    """
)

SUBSCRIPTIONS = rows(
    f"""
    topics subscriptions {TOPIC}
    topics create-subscription -s sub -m earliest {TOPIC}
    topics create-subscription -s sub -m earliest {TOPIC}
    topics create-subscription -s later -m latest -p reason=test {TOPIC}
    topics create-subscription -s sub {PARTED}
    topics subscriptions {TOPIC}
    topics subscriptions {PARTED}
    topics get-subscription-properties -s later {TOPIC}
    topics update-subscription-properties -s later -p more=1 {TOPIC}
    topics get-subscription-properties -s later {TOPIC}
    topics update-subscription-properties -s later --clear {TOPIC}
    topics get-subscription-properties -s later {TOPIC}
    client publish {TOPIC} 10
    topics stats {TOPIC}
    topics stats -gpb -sbs -etb {TOPIC}
    topics stats persistent://{NAMESPACE}/none
    topics stats {PASSING}
    topics stats-internal {TOPIC}
    topics stats-internal -m {TOPIC}
    topics stats-internal persistent://{NAMESPACE}/none
    topics info-internal {TOPIC}
    topics partitioned-stats {PARTED}
    topics partitioned-stats --per-partition {PARTED}
    topics partitioned-stats {TOPIC}
    topics partitioned-stats-internal {PARTED}
    client connect {TOPIC} sub
    topics stats {TOPIC}
    topics unsubscribe -s sub {TOPIC}
    client disconnect
    """
)

MESSAGES = [
    Row(f"topics last-message-id {TOPIC}", keep={"LEDGER": r"(\d+):\d+"}),
    *rows(
        f"""
        topics last-message-id {PARTED}
        topics peek-messages {SUB}
        topics peek-messages -n 2 {SUB}
        topics peek-messages -s ghost {TOPIC}
        topics unsubscribe -s ghost {TOPIC}
        topics examine-messages -i earliest -m 1 {TOPIC}
        topics examine-messages -i latest -m 2 {TOPIC}
        topics get-message-by-id -l {{LEDGER}} -e 3 {TOPIC}
        topics get-message-by-id -l {{LEDGER}} -e 333 {TOPIC}
        topics get-message-id -d 2020-01-01T00:00:00Z {TOPIC}
        topics get-backlog-size {TOPIC}
        topics get-backlog-size -m {{LEDGER}}:4 {TOPIC}
        topics analyze-backlog {SUB}
        topics skip -n 3 {SUB}
        topics peek-messages {SUB}
        topics skip -n 3 -s none {TOPIC}
        topics reset-cursor -m {{LEDGER}}:1 {SUB}
        topics peek-messages {SUB}
        topics reset-cursor -m {{LEDGER}}:1 -e {SUB}
        topics peek-messages {SUB}
        topics reset-cursor -t 1h {SUB}
        topics peek-messages {SUB}
        topics expire-messages -t 3600 {SUB}
        topics expire-messages -p {{LEDGER}}:2 {SUB}
        topics expire-messages -t 3600 -s none {TOPIC}
        topics expire-messages-all-subscriptions -t 3600 {TOPIC}
        topics clear-backlog {SUB}
        topics clear-backlog -s sub {PARTED}
        topics clear-backlog -s none {TOPIC}
        topics peek-messages {SUB}
        topics compaction-status {TOPIC}
        topics compact {TOPIC}
        topics compaction-status -w {TOPIC}
        topics compact {PARTED}
        topics compact persistent://{NAMESPACE}/none
        topics truncate {TOPIC}
        topics trim-topic {TOPIC}
        topics unload {TOPIC}
        topics unload {PARTED}
        topics unload persistent://{NAMESPACE}/none
        topics unsubscribe -s sub {PARTED}
        topics unsubscribe -s none {TOPIC}
        """
    ),
]

SCHEMAS = rows(
    f"""
    schemas get {TOPIC}
    schemas upload -f {{SCHEMA}} {TOPIC}
    schemas get {TOPIC}
    schemas get -v 0 {TOPIC}
    schemas get -v 9 {TOPIC}
    schemas get --all-version {TOPIC}
    schemas compatibility -f {{SCHEMA}} {TOPIC}
    schemas compatibility -f {{OTHER_SCHEMA}} {TOPIC}
    schemas upload -f {{OTHER_SCHEMA}} {TOPIC}
    schemas extract -j {{JAR}} -t avro -c \
      org.apache.pulsar.common.policies.data.RetentionPolicies -n {TOPIC}
    schemas delete {TOPIC}
    schemas get {TOPIC}
    """
)

ENDED = rows(
    f"""
    topics terminate {TOPIC}
    topics terminate {TOPIC}
    topics terminate {PARTED}
    topics terminate {PASSING}
    topics partitioned-terminate {PARTED}
    topics partitioned-terminate {TOPIC}
    topics stats-internal {TOPIC}
    topics delete {PARTED}
    topics delete-partitioned-topic {PARTED}
    topics delete-partitioned-topic {PARTED}
    topics delete {TOPIC}
    topics delete {TOPIC}
    topics delete -f persistent://{NAMESPACE}/none
    topics list {NAMESPACE}
    topics delete -r 'persistent://{NAMESPACE}/pla.*'
    """
)
