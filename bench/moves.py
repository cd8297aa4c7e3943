"""The publish gap of a move while a disk or ZooKeeper is slow, ours beside Pulsar's.

Three broker processes each on one ZooKeeper, under both load managers, at 1,000 publishes a second.
Ours keep messages in files, and the disk of one of the three is slow; Pulsar's are on one bookie,
whose disk it is. The answers of ZooKeeper are late for both, bookies excepted. The quick form
measures ours alone, under one manager.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from tests.conformance.jars import pulsar_lib

from bench._on_zookeeper import ours, real
from bench._real_pulsar import ONE_COPY
from bench._slow import SlowDisk, SlowServer
from bench.beside_pulsar import EXTENSIBLE, Servers, beside, gap
from bench.figures import Figure
from counterpoise.app.clusters.bookies import LocalBookies
from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.storage.open import file_url

SYNC_MS = 200
ANSWER_MS = 100
MANAGERS: dict[str, dict[str, str]] = {"extensible": EXTENSIBLE, "modular": {}}
BAR = 1 / 20


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    figures = []
    for manager, settings in list(MANAGERS.items())[: 1 if quick else None]:
        with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as folder:
            figures += _moves(lib, Path(folder), manager, settings, rounds=1 if quick else 10)
    return figures


def _moves(
    lib: Path | None, folder: Path, manager: str, settings: dict[str, str], rounds: int
) -> list[Figure]:
    disk = SlowDisk.make(folder) if shutil.which("cc") else None
    figures = []
    with (
        ZooKeeper.start(folder / "zookeeper") as zookeeper,
        SlowServer(int(zookeeper.address.rpartition(":")[2])).listening() as answers,
        _servers(lib, folder, zookeeper.address, answers.address, settings, disk) as servers,
    ):
        conditions: dict[str, AbstractContextManager[None]] = {
            "": contextlib.nullcontext(),
            f", ZooKeeper answers {ANSWER_MS} ms later": answers.each_answer_takes(ANSWER_MS),
        }
        if disk is not None:
            conditions[f", syncs of a disk take {SYNC_MS} ms"] = disk.each_sync_takes(SYNC_MS)
        for words, slow in conditions.items():
            with slow:
                results = {
                    name: [gap(each.service_url, each.admin_url, rounds)]
                    for name, each in servers.items()
                }
            what = f"{manager} manager{words}"
            median = beside(
                f"gap of a move, median: {what}", "ms", results, "gap_median_ms", most_times=BAR
            )
            worst = beside(
                f"gap of a move, worst of {rounds}: {what}", "ms", results, "gap_max_ms",
                most_times=BAR,
            )  # fmt: skip
            note = f"no message of that broker is acknowledged in less than {SYNC_MS} ms"
            figures += [
                *(replace(each, note=note if "disk" in words else "") for each in (median, worst)),
                beside(f"acknowledged and never received: {what}", "messages", results, "lost",
                       at_most=0),
            ]  # fmt: skip
    return figures


@contextlib.contextmanager
def _servers(
    lib: Path | None,
    folder: Path,
    zookeeper: str,
    late: str,
    settings: dict[str, str],
    disk: SlowDisk | None,
) -> Iterator[Servers]:
    """Three brokers each; ``late``: the ZooKeeper whose answers may be late."""
    environment = disk.environment if disk is not None else {}
    messages = {"ledgerStoreUrl": file_url(folder / "messages")}
    with contextlib.ExitStack() as stack:
        mine = ours(folder / "ours", late, [{}, environment, {}], **settings, **messages)
        servers: Servers = {"ours": stack.enter_context(mine)}
        if lib is not None:
            with patch.dict(os.environ, environment):
                bookie = LocalBookies.start(1, folder / "bookies", zookeeper)
            stack.enter_context(bookie)
            theirs = real(lib, folder / "real", late, 3, **ONE_COPY, **settings)
            servers["real"] = stack.enter_context(theirs)
        yield servers
