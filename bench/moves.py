"""The publish gap of a move while a disk or ZooKeeper is slow, ours beside Pulsar's.

Three broker processes each on one ZooKeeper, under both load managers, at 1,000 publishes a second.
Ours keep messages in files, and the disk of one of the three is slow; Pulsar's are on one bookie,
whose disk it is. The answers of ZooKeeper are late for both, bookies excepted. In each case a
bundle is unloaded ten times. The quick form measures ours alone, once, under one manager.
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
from bench.beside_pulsar import EXTENSIBLE, Servers, gap, move_figures
from bench.figures import Figure
from counterpoise.app.clusters.bookies import LocalBookies
from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.storage.open import file_url

SYNC_MS = 200
ANSWER_MS = 100
MANAGERS: dict[str, dict[str, str]] = {"extensible": EXTENSIBLE, "modular": {}}
MOVES = 10
BAR = 1 / 20


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    figures = []
    for manager, settings in list(MANAGERS.items())[: 1 if quick else None]:
        with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as folder:
            figures += _moves(lib, Path(folder), manager, settings, rounds=1 if quick else MOVES)
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
        conditions: list[tuple[str, str, AbstractContextManager[None]]] = [
            ("", "", contextlib.nullcontext()),
            (f", ZooKeeper answers {ANSWER_MS} ms later", "", answers.each_answer_takes(ANSWER_MS)),
        ]
        if disk is not None:
            note = f"no message of that broker is acknowledged in less than {SYNC_MS} ms"
            words = f", syncs of a disk take {SYNC_MS} ms"
            conditions.append((words, note, disk.each_sync_takes(SYNC_MS)))
        for words, note, slow in conditions:
            with slow:
                results = {
                    name: [gap(each.service_url, each.admin_url, rounds)]
                    for name, each in servers.items()
                }
            found = move_figures(results, BAR, f"{manager} manager{words}")
            figures += [replace(each, note=note) for each in found]
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
