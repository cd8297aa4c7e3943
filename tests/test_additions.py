"""What an addition touches: each is made on a copy of the package, in the files its row names."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "counterpoise"


@dataclass(frozen=True)
class Addition:
    """New files, lines that are put before others, and a program that uses what was added."""

    row: str
    files: dict[str, str]
    lines: dict[str, tuple[tuple[str, str], ...]]
    use: str


SHEDDER = Addition(
    "a shedder",
    {
        "decide/shedding/quiet.py": '''
"""A shedder that sheds nothing, and says its option."""

from dataclasses import dataclass

from counterpoise.decide.memory import NO_MEMORY, Memoryless
from counterpoise.decide.plan import Rejection, StrategyPlan
from counterpoise.load.view import ClusterView
from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class QuietOptions:
    """What QuietShedder reads."""

    calm: int = option(3, conf="counterpoiseCalm", dynamic=True, why="says it")


class QuietShedder(Memoryless):
    """Sheds nothing."""

    name = "QuietShedder"
    options = QuietOptions
    view = ClusterView

    def plan(self, view, memory, options, now_ms, rng):
        """Nothing."""
        why = Rejection("cluster", "calm", options.calm, None, "counterpoiseCalm", "all is calm")
        return StrategyPlan((), (why,), memory)
'''
    },
    {
        "decide/shedding/registry.py": (
            (
                "from counterpoise.decide.shedding.strategy import",
                "from counterpoise.decide.shedding.quiet import QuietShedder\n",
            ),
            ("        Counterpoise.name:", "        QuietShedder.name: QuietShedder(),\n"),
        ),
        "decide/shedding/option_classes.py": (
            (
                "from counterpoise.decide.shedding.counterpoise.options import",
                "from counterpoise.decide.shedding.quiet import QuietOptions\n",
            ),
            ("    options.AvgOptions,\n    CounterpoiseOptions", "    QuietOptions,\n"),
        ),
    },
    """
import json, time, urllib.request
import counterpoise
settings = {"loadBalancerLoadSheddingStrategy": "QuietShedder", "counterpoiseCalm": 7}
with counterpoise.Cluster(brokers=2, config=settings, balance_every_s=0.2) as cluster:
    url = f"{cluster.admin_url}/admin/v2/brokers/configuration"
    said = json.load(urllib.request.urlopen(url + "/runtime"))
    assert said["counterpoiseCalm"] == "7", said.get("counterpoiseCalm")
    def until_seen(value):
        until = time.monotonic() + 30
        while True:
            seen = {it.value for made in cluster.rounds for it in made.rejections}
            if value in seen:
                return
            assert time.monotonic() < until, seen
            time.sleep(0.1)

    until_seen(7)
    post = urllib.request.Request(url + "/counterpoiseCalm/9", method="POST")
    urllib.request.urlopen(post).read()
    until_seen(9)
""",
)

RESOURCE = Addition(
    "a REST resource",
    {
        "admin/rest/greeting.py": '''
"""A resource that greets."""

from counterpoise.admin import access, route
from counterpoise.admin.request import answer

routes = route.Routes()


@routes.get("/admin/v2/greeting/{tenant}", access.ANYBODY)
async def greet(request):
    """Greets a tenant."""
    return answer({"hello": request.match_info["tenant"]})
'''
    },
    {
        "admin/app.py": (
            ("from counterpoise.admin.rest import (", ""),
            ("    health,\n    isolation,", "    greeting,\n"),
            ("    schemas,\n    permissions,\n    description", "    greeting,\n"),
        )
    },
    """
import json, urllib.error, urllib.request
import counterpoise
with counterpoise.Cluster(brokers=1) as cluster:
    url = f"{cluster.admin_url}/admin/v2"
    assert json.load(urllib.request.urlopen(f"{url}/greeting/public")) == {"hello": "public"}
    assert "/admin/v2/greeting/{tenant}" in json.load(
        urllib.request.urlopen(f"{url}/openapi.json")
    )["paths"]
    try:
        urllib.request.urlopen(f"{url}/greeting/no%20tenant")
    except urllib.error.HTTPError as error:
        assert error.code == 412, error.code
    else:
        raise AssertionError("a name that is none was let in")
""",
)

METRIC = Addition(
    "a metric",
    {},
    {
        "admin/metrics/broker.py": (
            (
                "    yield from _connections(broker)\n",
                '    yield from sample.samples_of("counterpoise_", cluster, (("answer", 42),))\n',
            ),
        ),
        "admin/metrics/reference.tsv": (
            ("pulsar_broker_topics_count\t", "counterpoise_answer\tWhat it all means\n"),
        ),
    },
    """
import urllib.request
import counterpoise
with counterpoise.Cluster(brokers=1) as cluster:
    text = urllib.request.urlopen(f"{cluster.admin_url}/metrics/").read().decode()
assert "# HELP counterpoise_answer What it all means" in text
assert "# TYPE counterpoise_answer gauge" in text
assert 'counterpoise_answer{cluster="standalone"} 42' in text, text[:500]
""",
)

STORE = Addition(
    "a ledger store",
    {
        "storage/copied/__init__.py": '"""Ledgers in memory, by another name."""\n',
        "storage/copied/store.py": '''
"""The store."""

from counterpoise.storage.memory import MemoryLedgerStore


class CopiedStore(MemoryLedgerStore):
    """Ledgers in memory."""
''',
    },
    {
        "storage/open.py": (
            (
                "SCHEMES: Mapping",
                "async def _open_copied(options: StorageOptions) -> LedgerStore:\n"
                "    from counterpoise.storage.copied.store import CopiedStore\n\n"
                "    return CopiedStore()\n\n\n",
            ),
            ('    "memory": _open_memory,', '    "copied": _open_copied,\n'),
        )
    },
    """
import pulsar, sys
import counterpoise
with counterpoise.Cluster(brokers=1, config={"ledgerStoreUrl": "copied:x"}) as cluster:
    client = pulsar.Client(cluster.service_url)
    consumer = client.subscribe("t", "s")
    client.create_producer("t").send(b"kept")
    assert consumer.receive(10_000).data() == b"kept"
    client.close()
    assert "counterpoise.storage.copied.store" in sys.modules
""",
)


def row_of(addition: Addition) -> str:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {addition.row} |"))
    return row.split("|")[2]


@pytest.mark.parametrize(
    "addition", [SHEDDER, RESOURCE, METRIC, STORE], ids=lambda each: each.row.split()[-1]
)
def test_an_addition_touches_what_its_row_says(addition: Addition, tmp_path: Path) -> None:
    row = row_of(addition)
    named = [each.rstrip("/") for each in re.findall(r"`([\w./]+)`", row)]
    for file in (*addition.files, *addition.lines):
        assert any(
            file == each or file.startswith(each + "/") or Path(file).name == each for each in named
        ), f"{file} is not in the row of {addition.row}: {row}"
    copy = tmp_path / "counterpoise"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in addition.files.items():
        (copy / file).parent.mkdir(exist_ok=True)
        (copy / file).write_text(text, encoding="utf-8")
    for file, changes in addition.lines.items():
        text = (copy / file).read_text(encoding="utf-8")
        for before, new in changes:
            assert text.count(before) == 1, (
                f"{file}: {before!r} is there {text.count(before)} times"
            )
            text = text.replace(before, new + before)
        (copy / file).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", addition.use],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
