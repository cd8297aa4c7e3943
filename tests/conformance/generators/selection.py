"""A bundle to place among brokers with facts, policies, groups and domains of all kinds."""

from random import Random
from typing import Any

from tests.conformance.generators.load_data import NOW
from tests.conformance.generators.settings import settings
from tests.conformance.generators.values import Numbers

MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
_VERSIONS = ("4.0.7", "4.0.7", "4.0.8", "4.1.0-rc.1", "4.1.0+b1", "4.1.0+b2", "4.0.10", "4.1.0")
_NAMESPACES = ("t/a", "t/b", "t/c", "u/a", "pulsar/system")


def selection_case(rng: Random) -> dict[str, Any]:
    """One question to the modular manager: which brokers are left, and which is chosen?"""
    names = [f"{host}-{i}.x:8080" for i in range(rng.randint(0, 7)) for host in "ab"[: 1 + i % 2]]
    owned = {name: sorted({_bundle(rng) for _ in range(rng.randrange(6))}) for name in names}
    uniform = rng.random() < 0.5
    bundle = _bundle(rng)
    brokers = {name: _broker(rng, owned[name], uniform=uniform) for name in names}
    return {
        "op": "select",
        "mode": "",
        "bundle": bundle,
        "persistent": rng.random() < 0.8,
        "owned": owned,
        "policies": {f"p{i}": _policy(rng) for i in range(rng.choice((0, 0, 1, 2, 3)))},
        "groups": {
            ns: rng.choice(("g", "G", "other", " ", "")) for ns in _NAMESPACES if rng.random() < 0.4
        },
        "domains": {name: rng.choice(("d1", "d2", "d3")) for name in names if rng.random() < 0.8},
        "loadData": {"now": NOW, "brokerData": brokers, "bundleData": {bundle: _data()}},
        "conf": {**settings(rng, "select"), "clusterName": "c"},
    }


def _bundle(rng: Random) -> str:
    low = rng.randrange(8) * 0x10000000
    return f"{rng.choice(_NAMESPACES)}/0x{low:08x}_0x{low + 0x10000000:08x}"


def _broker(rng: Random, owned: list[str], *, uniform: bool) -> dict[str, Any]:
    numbers = Numbers(rng, "smooth")
    report: dict[str, Any] = {
        resource: numbers.usage(rng.choice((10.0, 50.0, 90.0, 86.0)))
        for resource in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    }
    report |= {
        "bundles": owned,
        "numTopics": rng.choice((0, 10, 49_999, 50_000, 50_001)),
        "persistentTopicsEnabled": rng.random() < 0.9,
        "nonPersistentTopicsEnabled": rng.random() < 0.7,
        "brokerVersionString": "4.0.7" if uniform else rng.choice((*_VERSIONS, "", "x.y")),
        "loadManagerClassName": MODULAR if uniform or rng.random() < 0.8 else "another.Manager",
    }
    preallocated = {}
    if rng.random() < 0.3:
        preallocated[_bundle(rng)] = {**_data(), "topics": rng.choice((0, 1, 40_000))}
    return {"localData": report, "timeAverageData": {}, "preallocatedBundleData": preallocated}


def _data() -> dict[str, Any]:
    average = {"msgThroughputIn": 1.0, "msgThroughputOut": 1.0, "msgRateIn": 1.0}
    average |= {"msgRateOut": 1.0, "numSamples": 1}
    return {
        "shortTermData": {**average, "maxSamples": 10},
        "longTermData": {**average, "maxSamples": 1000},
        "topics": 1,
    }


def _policy(rng: Random) -> dict[str, Any]:
    return {
        "namespaces": rng.sample(("t/.*", "t/a", "u/.*", "pulsar/system", "t/[bc]"), 1),
        "primary": rng.sample(("a-.*", "b-.*", "a-0\\.x", "a-[12].x", "none"), rng.randint(1, 2)),
        "secondary": rng.sample(("b-.*", "a-.*", "a-3.x"), rng.randint(0, 2)),
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": str(rng.randint(0, 4)), "usage_threshold": "80"},
        },
    }
