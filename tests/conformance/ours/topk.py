"""Our ranking of bundles, and the busiest by it."""

from counterpoise.load.average import BundleData
from counterpoise.load.ranking import Key, bundle_key, stats_key
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.load.topk import top_bundles
from tests.conformance.suite import Answer, Case


def top(case: Case) -> Answer:
    stats = {name: NamespaceBundleStats.from_json(value) for name, value in case["stats"].items()}
    data = {name: BundleData.from_json(value) for name, value in case["data"].items()}
    allowed = case["conf"]["loadBalancerSheddingBundlesWithPoliciesEnabled"]
    found = top_bundles(stats, case["most"], () if allowed else case["withPolicies"])
    names = [each.bundle_name for each in found.top_bundles_load_data]
    case["picks"] = names
    return {
        "top": names,
        "signs": [
            [_sign(stats_key(stats[a]), stats_key(stats[b])) for a, b in case["pairs"]],
            [_sign(bundle_key(data[a]), bundle_key(data[b])) for a, b in case["dataPairs"]],
        ],
    }


def _sign(left: Key, right: Key) -> int:
    return (left > right) - (left < right)
