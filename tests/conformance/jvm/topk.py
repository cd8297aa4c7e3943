"""The busiest bundles by Pulsar's ranking, and the ranking itself."""

from typing import Any

from jpype import JClass

from tests.conformance.jvm.java import POLICIES, Java, Json
from tests.conformance.jvm.services import policies_pulsar
from tests.conformance.jvm.splitting import STATS
from tests.conformance.jvm.transfer import EXTENSIONS


class TopBundles:
    """TopKBundles over a broker's statistics, and compareTo over pairs of them."""

    def __init__(self, java: Java) -> None:
        self._java = java

    def answer(self, case: Json) -> Json:
        java = self._java
        conf = java.conf({**case["conf"], "clusterName": "c"})
        pulsar = policies_pulsar(java, conf, {}, dict.fromkeys(case["withPolicies"], "g"), {})
        top = JClass(f"{EXTENSIONS}.models.TopKBundles")(pulsar)
        table = java.read_map(case["stats"], STATS)
        top.update(java.tree_map(table) if case["by_name"] else table, case["most"])
        names = [str(each.bundleName()) for each in top.getLoadData().getTopBundlesLoadData()]
        picks = case["picks"]
        alike = [
            mine in case["stats"] and table.get(mine).compareTo(table.get(theirs)) == 0
            for mine, theirs in zip(picks, names, strict=False)
        ]
        return {"top": names, "alike": alike, "signs": self._signs(case, table)}

    def _signs(self, case: Json, table: Any) -> list[list[int]]:
        data = self._java.read_map(case["data"], f"{POLICIES}.BundleData")
        return [
            [_sign(objects.get(a).compareTo(objects.get(b))) for a, b in case[key]]
            for key, objects in (("pairs", table), ("dataPairs", data))
        ]


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
