"""The demonstration's traffic, through the official client on a cluster."""

import threading
from pathlib import Path

import pytest

from counterpoise import Cluster
from counterpoise.app.demo.load import LoadGenerator
from counterpoise.app.demo.plan import SkewedTopic


@pytest.mark.client
def test_every_message_is_counted_as_sent_acknowledged_and_received(tmp_path: Path) -> None:
    topics = [SkewedTopic(f"persistent://public/default/demo-{n}", 200.0) for n in range(2)]
    with Cluster(brokers=1) as cluster:
        load = LoadGenerator(cluster.service_url, topics, tmp_path / "client.log")
        load.start()
        pause = threading.Event()
        while load.tally().received < 50:
            pause.wait(0.01)
        tally = load.stop(receive_s=60)
    assert tally.sent >= 50
    assert tally.sent == tally.acknowledged == tally.received
    assert (tally.failed, tally.duplicated, tally.lost) == (0, 0, 0)
