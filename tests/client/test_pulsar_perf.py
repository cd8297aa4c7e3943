"""Apache's own ``pulsar-perf`` against the cluster."""

from functools import partial
from pathlib import Path

import pytest

from tests.apache_tools import PERF, needs_tools, run_tool
from tests.client.conftest import Target

pytestmark = [pytest.mark.client, needs_tools]
MESSAGES = 500


@pytest.mark.parametrize("batching", [(), ("--disable-batching",)], ids=["batched", "unbatched"])
def test_it_produces_and_consumes(
    target: Target, tmp_path: Path, batching: tuple[str, ...]
) -> None:
    perf = partial(run_tool, PERF, tmp_path, target.service_url, target.admin_url)
    name = f"public/default/perf-{'-'.join(batching)}"
    topic, stats = f"persistent://{name}", f"persistent/{name}/stats"
    perf("produce", "-r", "10000", "-m", str(MESSAGES), *batching, topic)
    produced = target.admin("GET", stats)
    assert isinstance(produced, dict)
    assert produced["msgInCounter"] >= MESSAGES
    perf("consume", "-sp", "Earliest", "-ss", "all", "-m", str(MESSAGES), topic)
    consumed = target.admin("GET", stats)
    assert isinstance(consumed, dict)
    assert consumed["subscriptions"]["all"]["msgOutCounter"] >= MESSAGES
