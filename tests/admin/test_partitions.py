"""Topics of many partitions: how many there may be, and figures of those that are here."""

from typing import Any

import pytest

from counterpoise.admin.rest import partitioned_topics
from counterpoise.app.clusters.embedded import Cluster
from counterpoise.broker.face import PARTITIONS_MAX
from tests.admin.conftest import Api

COUNT = 66
"""More than are created at once."""


@pytest.mark.parametrize("what", ["partitioned-stats", "partitioned-internalStats"])
def test_a_broker_does_not_ask_itself(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    asked: list[str] = []
    ask = partitioned_topics.ask

    async def counted(request: Any, method: str, path: str, **more: Any) -> Any:
        asked.append(path)
        return await ask(request, method, path, **more)

    monkeypatch.setattr(partitioned_topics, "ask", counted)
    with Cluster(brokers=1) as cluster:
        api = Api(cluster.admin_url)
        most = "/admin/v2/non-persistent/public/default/most/partitions"
        assert api("PUT", most, PARTITIONS_MAX + 1).status == 406
        assert api("PUT", most, PARTITIONS_MAX).status == 204
        path = "/admin/v2/persistent/public/default/many"
        assert api("PUT", f"{path}/partitions", COUNT).status == 204
        assert api("DELETE", f"{path}-partition-3").status == 204
        found = api.get(f"{path}/{what}")["partitions"]
        first = len(asked)
        assert api.get(f"{path}/{what}")["partitions"].keys() == found.keys()
    assert len(found) == COUNT - 1
    assert len(asked) == first, "all of them are here by now"
    assert first <= COUNT
