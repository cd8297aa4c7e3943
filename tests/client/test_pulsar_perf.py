"""Apache's own ``pulsar-perf`` against the cluster."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.apache_tools import PERF, needs_tools, run_tool
from tests.client.conftest import Target

pytestmark = [pytest.mark.client, needs_tools]
MESSAGES = 500
PLAIN, BATCHED = "public/default/perf-plain", "public/default/perf-batched"


def test_it_produces_with_and_without_batches_and_consumes(target: Target, tmp_path: Path) -> None:
    perf = partial(run_tool, PERF, tmp_path, target.service_url, target.admin_url)

    def produce(topic: str, *options: str) -> None:
        perf("produce", "-r", "10000", "-m", str(MESSAGES), *options, f"persistent://{topic}")
        produced = target.admin("GET", f"persistent/{topic}/stats")
        assert isinstance(produced, dict)
        assert produced["msgInCounter"] >= MESSAGES

    # Side by side: a command looks only every ten seconds whether it is done.
    with ThreadPoolExecutor(2) as beside:
        plain = beside.submit(produce, PLAIN, "--disable-batching")
        produce(BATCHED)
        plain.result()
    topics = [f"persistent://{topic}" for topic in (PLAIN, BATCHED)]
    every = ["-sp", "Earliest", "-ss", "all", "-t", "2", "-m", str(2 * MESSAGES)]
    perf("consume", *every, *topics)
    for topic in (PLAIN, BATCHED):
        consumed = target.admin("GET", f"persistent/{topic}/stats")
        assert isinstance(consumed, dict)
        assert consumed["subscriptions"]["all"]["msgOutCounter"] >= MESSAGES
