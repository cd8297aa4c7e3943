"""Commands about transactions, on a cluster that has them."""

from tests.admin.table.row import rows

SETTINGS = {"transactionCoordinatorEnabled": "true"}
COORDINATORS = 16
"""As many as a cluster of ours has; a standalone Pulsar has one until it is asked for more."""
SOURCE, TARGET = "persistent://public/default/source", "persistent://public/default/target"
ON_SOURCE = f"-t {SOURCE} -s s"

TRANSACTIONS = rows(
    f"""
    client have_coordinators {COORDINATORS}
    transactions coordinators-list
    transactions coordinator-stats -c 0
    transactions coordinator-stats -c 99
    transactions coordinator-internal-stats -c 0
    transactions coordinator-internal-stats -c 99
    transactions slow-transactions -t 1s
    transactions slow-transactions -c 99 -t 1s
    transactions transaction-metadata -m 0 -l 0
    transactions transaction-metadata -m 99 -l 0
    transactions transaction-buffer-stats -t {SOURCE}
    topics create {SOURCE}
    topics create {TARGET}
    client wait_for NoSnapshot transactions transaction-buffer-stats -t {TARGET}
    client wait_for NoSnapshot transactions transaction-buffer-stats -t {SOURCE}
    transactions transaction-buffer-stats -t {SOURCE}
    transactions transaction-buffer-stats -t {SOURCE} -l -s
    transactions transaction-in-buffer-stats -m 0 -l 0 -t {SOURCE}
    transactions pending-ack-stats {ON_SOURCE}
    transactions pending-ack-internal-stats {ON_SOURCE}
    client java follow topic={SOURCE} subscription=s kind=Exclusive
    client java produce topic={SOURCE} payload=in count=3
    client java receive topic={SOURCE} subscription=s count=3 within_s=10
    transactions pending-ack-stats {ON_SOURCE}
    transactions pending-ack-internal-stats {ON_SOURCE}
    transactions transaction-in-pending-ack-stats -m 0 -l 0 {ON_SOURCE}
    transactions position-stats-in-pending-ack {ON_SOURCE} -l 1 -e 0
    client java begin name=one timeout_s=600
    client java produce_in name=one topic={TARGET} payload=out count=1
    client java produce_in name=one topic={TARGET} payload=out count=1
    client java acknowledge_in name=one topic={SOURCE} subscription=s texts='["in-1"]'
    transactions slow-transactions -t 1s
    transactions slow-transactions -t 1h
    transactions coordinator-stats
    transactions transaction-metadata -m 1 -l 0
    transactions transaction-metadata -m 1 -l 99
    transactions transaction-buffer-stats -t {TARGET} -l -s
    transactions buffer-snapshot-internal-stats -t {TARGET}
    transactions transaction-in-buffer-stats -m 1 -l 0 -t {TARGET}
    transactions pending-ack-stats {ON_SOURCE} -l
    transactions pending-ack-internal-stats {ON_SOURCE}
    transactions transaction-in-pending-ack-stats -m 1 -l 0 {ON_SOURCE}
    client java end name=one commit=true
    transactions transaction-metadata -m 1 -l 0
    transactions transaction-buffer-stats -t {TARGET} -l -s
    transactions transaction-in-buffer-stats -m 1 -l 0 -t {TARGET}
    transactions pending-ack-stats {ON_SOURCE} -l
    transactions coordinator-stats -c 1
    transactions coordinator-internal-stats -c 1
    client java begin name=two timeout_s=600
    client java produce_in name=two topic={TARGET} payload=out count=1
    client java acknowledge_in name=two topic={SOURCE} subscription=s texts='["in-2"]' \
      cumulative=true
    transactions transaction-in-pending-ack-stats -m 2 -l 0 {ON_SOURCE}
    transactions transaction-metadata -m 2 -l 0
    transactions abort-transaction -m 2 -l 0
    transactions abort-transaction -m 2 -l 0
    transactions abort-transaction -m 99 -l 0
    transactions transaction-in-buffer-stats -m 2 -l 0 -t {TARGET}
    transactions transaction-buffer-stats -t {TARGET} -l
    transactions transaction-in-pending-ack-stats -m 2 -l 0 {ON_SOURCE}
    transactions coordinator-stats -c 2
    transactions scale-transactionCoordinators -r {COORDINATORS}
    transactions scale-transactionCoordinators -r {COORDINATORS + 1}
    transactions coordinators-list
    transactions transaction-buffer-stats -t persistent://public/default/nowhere
    """
)
