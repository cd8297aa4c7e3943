"""Brokers, their figures, clusters, tenants, resource groups and isolation."""

from tests.admin.table.row import NAMESPACE, TENANT, rows

BROKERS = rows(
    """
    brokers list standalone
    brokers leader-broker
    brokers namespaces standalone --url {BROKER}
    brokers list-dynamic-config
    brokers get-all-dynamic-config
    brokers update-dynamic-config -c dispatchThrottlingRateInMsg -v 1000000
    brokers get-all-dynamic-config
    brokers delete-dynamic-config -c dispatchThrottlingRateInMsg
    brokers get-all-dynamic-config
    brokers update-dynamic-config -c noSuchSetting -v 1
    brokers get-internal-config
    brokers get-runtime-config
    brokers healthcheck
    brokers healthcheck --topic-version V2
    brokers backlog-quota-check
    brokers version
    """
)

SHUTDOWN = rows("brokers shutdown -m 10 -f")
"""The very last."""

BROKER_STATS = rows(
    """
    broker-stats monitoring-metrics
    client wait_for_stats acme/app
    broker-stats topics
    broker-stats destinations --indent
    broker-stats load-report
    """
)

CLUSTERS = rows(
    """
    clusters list
    clusters list --current
    clusters get standalone
    clusters create far --url http://far:8080 --broker-url pulsar://far:6650
    clusters create far --url http://far:8080 --broker-url pulsar://far:6650
    clusters list
    clusters get far
    clusters update far --url http://far:8081 --broker-url pulsar://far:6651 --proxy-protocol \
      SNI --proxy-url pulsar://proxy:6650 --tls-enable --listener-name inside
    clusters get far
    clusters get-peer-clusters far
    clusters update-peer-clusters far --peer-clusters standalone
    clusters get-peer-clusters far
    clusters update-peer-clusters far --peer-clusters nowhere
    clusters update-peer-clusters far --peer-clusters far
    clusters list-failure-domains standalone
    clusters create-failure-domain standalone --domain-name rack1 --broker-list {BROKER}
    clusters list-failure-domains standalone
    clusters get-failure-domain standalone --domain-name rack1
    clusters create-failure-domain standalone --domain-name rack2 --broker-list {BROKER}
    clusters update-failure-domain standalone --domain-name rack1 --broker-list other:8080
    clusters get-failure-domain standalone --domain-name rack1
    clusters get-failure-domain standalone --domain-name nowhere
    clusters delete-failure-domain standalone --domain-name rack1
    clusters delete-failure-domain standalone --domain-name rack1
    clusters list-failure-domains standalone
    clusters delete far
    clusters delete far
    clusters get far
    """
)

TENANTS = rows(
    f"""
    tenants list
    tenants create {TENANT} --admin-roles ops,dev --allowed-clusters standalone
    tenants create {TENANT} --allowed-clusters standalone
    tenants create wrong --allowed-clusters nowhere
    tenants get {TENANT}
    tenants update {TENANT} --admin-roles ops --allowed-clusters standalone
    tenants get {TENANT}
    tenants list
    tenants create brief
    tenants get brief
    tenants delete brief
    tenants delete brief
    tenants get brief
    """
)

RESOURCE_GROUPS = rows(
    f"""
    resourcegroups list
    resourcegroups create shared -mp 100 -bp 10000 -md 200 -bd 20000
    resourcegroups create shared -mp 100
    resourcegroups get shared
    resourcegroups update shared -mp 300
    resourcegroups get shared
    resourcegroups list
    resourcegroups get none
    namespaces get-resource-group {NAMESPACE}
    namespaces set-resource-group -rgn none {NAMESPACE}
    namespaces set-resource-group -rgn shared {NAMESPACE}
    namespaces get-resource-group {NAMESPACE}
    resourcegroups delete shared
    namespaces remove-resource-group {NAMESPACE}
    namespaces get-resource-group {NAMESPACE}
    resourcegroups delete shared
    resourcegroups delete shared
    resourcegroups list
    """
)

ISOLATION = rows(
    """
    ns-isolation-policy list standalone
    ns-isolation-policy set standalone apart --namespaces acme/apart.* --primary 127.* \
      --secondary other.* --auto-failover-policy-type min_available \
        --auto-failover-policy-params min_limit=1,usage_threshold=80
    ns-isolation-policy get standalone apart
    ns-isolation-policy list standalone
    ns-isolation-policy brokers standalone
    ns-isolation-policy broker standalone --broker {BROKER}
    ns-isolation-policy set standalone apart --namespaces acme/apart.* --primary 127.* \
      --auto-failover-policy-type min_available --auto-failover-policy-params \
        min_limit=2,usage_threshold=90 --unload-scope none
    ns-isolation-policy get standalone apart
    ns-isolation-policy get standalone none
    ns-isolation-policy delete standalone apart
    ns-isolation-policy delete standalone apart
    ns-isolation-policy list standalone
    """
)
