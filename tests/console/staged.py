"""A cluster that is only its admin API, on a thread of its own, for a browser to look at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from counterpoise.app.clusters.loop_thread import LoopThread
from tests.pipeline.fake_cluster import FakeBroker, FakeCluster

WITHIN_S = 60.0
ASKED_FOR_A_ROLE = "/admin/v2/brokers/configuration/runtime"


class Staged(FakeCluster):
    """What a test does to it, it does from the test's thread."""

    thread: LoopThread

    def add(self) -> FakeBroker:
        return self.thread.run(self.add_broker(), WITHIN_S)

    def on_loop(self, work: Callable[[], None]) -> None:
        async def run() -> None:
            work()

        self.thread.run(run(), WITHIN_S)

    def carry(self, owner: FakeBroker, bundle: str, bytes_per_s: float) -> None:
        # On the loop, whose brokers may be listing the bundles that they own.
        self.on_loop(lambda: FakeCluster.carry(self, owner, bundle, bytes_per_s))


@contextmanager
def staged(brokers: int = 2) -> Iterator[Staged]:
    thread = LoopThread("staged cluster")
    cluster = Staged()
    cluster.thread = thread
    try:
        for _ in range(brokers):
            cluster.add().answers[ASKED_FOR_A_ROLE] = (200, b"{}")
        yield cluster
        thread.run(cluster.__aexit__(None, None, None), WITHIN_S)
    finally:
        thread.stop()
