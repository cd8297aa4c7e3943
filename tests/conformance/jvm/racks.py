"""BookKeeper's RackawareEnsemblePlacementPolicy: its own choices, and its word on ours."""

from typing import Any

from jpype import JClass, JException, JImplements, JOverride

from tests.conformance.jvm.java import Java, Json

CLIENT = "org.apache.bookkeeper.client"
TRIES = 3
"""Java's choices are random: one that adheres may be found by the next try."""


class Racks:
    """A policy for each case, which knows the case's bookies by their racks."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._policy = JClass(f"{CLIENT}.RackawareEnsemblePlacementPolicy")
        self._conf = JClass("org.apache.bookkeeper.conf.ClientConfiguration")
        self._bookie = JClass("org.apache.bookkeeper.net.BookieId")
        address = JClass("org.apache.bookkeeper.net.BookieSocketAddress")
        self._addresses = address.LEGACY_BOOKIEID_RESOLVER
        self._features = JClass("org.apache.bookkeeper.feature.SettableFeatureProvider").DISABLE_ALL
        self._statistics = JClass("org.apache.bookkeeper.stats.NullStatsLogger").INSTANCE
        self._timer = JClass("io.netty.util.HashedWheelTimer")()
        self._set = JClass("java.util.HashSet")
        adherence = JClass(f"{CLIENT}.EnsemblePlacementPolicy$PlacementPolicyAdherence")
        self._strict = adherence.MEETS_STRICT

    def answer(self, case: Json) -> Json:
        policy = self._made(case)
        sizes = (case["ensemble"], case["write"], case["ack"])
        custom, written = self._java.linked_map(), self._list(case["written"])
        failed = written.get(case["failed"])

        def new() -> Any:
            return policy.newEnsemble(*sizes, custom, self._ids(case["excluded"])).getResult()

        def replaced() -> Any:
            excluded = self._ids(case["excluded"])
            found = policy.replaceBookie(*sizes, custom, written, failed, excluded).getResult()
            after = self._list(case["written"])
            after.set(case["failed"], found)
            return after

        return self._judged(case, policy, [new, replaced])

    def _judged(self, case: Json, policy: Any, ways: list[Any]) -> Json:
        adheres = [
            None if pick is None else self._adheres(policy, case, self._list(pick))
            for pick in case["picks"]
        ]
        found, better = [], []
        for way, ours in zip(ways, adheres, strict=True):
            theirs = [each for each in (_chosen(way) for _ in range(TRIES)) if each is not None]
            found.append(bool(theirs))
            good = any(self._adheres(policy, case, each) for each in theirs)
            better.append(good and not ours)
        return {"found": None if case["enforced"] else found, "adheres": adheres, "better": better}

    def _adheres(self, policy: Any, case: Json, ensemble: Any) -> bool:
        word = policy.isEnsembleAdheringToPlacementPolicy(ensemble, case["write"], case["ack"])
        return bool(word == self._strict)

    def _made(self, case: Json) -> Any:
        conf = self._conf()
        conf.setMinNumRacksPerWriteQuorum(case["racks_min"])
        conf.setEnforceMinNumRacksPerWriteQuorum(case["enforced"])
        conf.setIgnoreLocalNodeInPlacementPolicy(True)
        policy = self._policy()
        resolver = self._java.optional.of(_Resolver(self._java, case["racks"]))
        policy.initialize(
            conf, resolver, self._timer, self._features, self._statistics, self._addresses
        )
        policy.onClusterChanged(self._ids(case["racks"]), self._set())
        return policy

    def _list(self, names: Any) -> Any:
        made = self._java.array_list()
        for name in names:
            made.add(self._bookie.parse(name))
        return made

    def _ids(self, names: Any) -> Any:
        return self._set(self._list(names))


def _chosen(way: Any) -> Any:
    try:
        return way()
    except JException:
        return None


@JImplements("org.apache.bookkeeper.net.DNSToSwitchMapping")
class _Resolver:
    """Pulsar's map of bookies to racks, as a policy asks for it."""

    def __init__(self, java: Java, racks: dict[str, str]) -> None:
        self._java = java
        self._racks = {bookie.partition(":")[0]: rack for bookie, rack in racks.items()}

    @JOverride
    def resolve(self, names: Any) -> Any:
        found = self._java.array_list()
        for name in names:
            found.add(self._java.string(self._racks[str(name)] or "/default-rack"))
        return found

    @JOverride
    def reloadCachedMappings(self) -> None:
        pass

    @JOverride
    def useHostName(self) -> bool:
        return True

    @JOverride
    def setBookieAddressResolver(self, _: Any) -> None:
        pass
