"""Configurations that the doctor is asked about, and what it finds in them."""

from counterpoise.app.doctor.diagnosis import Severity
from counterpoise.app.doctor.examine import examine
from counterpoise.app.doctor.setup import Setup
from counterpoise.names.properties import parse_properties

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
TRANSFER = "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
SHEDDER = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"
AVG_PAIR = f"""\
{SHEDDER}={IMPL}AvgShedder
{PLACEMENT}={IMPL}AvgShedder
loadBalancerDistributeBundlesEvenlyEnabled=false
defaultNumberOfNamespaceBundles=64
"""
TRANSFERS = f"""\
loadManagerClassName={EXTENSIBLE}
{SHEDDER}={TRANSFER}
defaultNumberOfNamespaceBundles=64
"""


def look(text, brokers=None, bundles=None):
    return examine(Setup(parse_properties(text), brokers, bundles))


def problems(text, brokers=None, bundles=None):
    found = look(text, brokers, bundles)
    return {each.rule for each in found if each.severity is Severity.PROBLEM}
