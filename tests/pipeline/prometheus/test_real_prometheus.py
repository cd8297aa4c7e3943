"""A real Prometheus as the judge: what it answers is imported as what the tests' server says."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from counterpoise.app.main import main
from tests.pipeline.prometheus.fake_prometheus import FakePrometheus
from tests.pipeline.prometheus.importing import (
    FIRST_MS,
    STEP_MS,
    imported,
    iso,
    moments,
    rates,
    rows_of,
    steady,
)
from tests.pipeline.prometheus.played import Series
from tests.ports import free_ports
from tests.waiting import found

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="no prometheus and promtool on the PATH",
)
CONFIGURATION = "global:\n  scrape_interval: 1h\n"


HOSTILE = (
    "plain",
    'quote"and\\backslash',
    "]],[[",
    '","values":[[1,"1"]]',
    "zażółć-🦉",
    "{}%2F-partition-1",
)


@pytest.mark.timeout(300)
async def test_a_real_prometheus_gives_the_same_history(tmp_path: Path) -> None:
    series = [
        one
        for number, name in enumerate(HOSTILE)
        for one in steady(f"b{number % 3}:8080", f"persistent://tenant/ns/{name}", *range(30))
    ]
    odd = dict(
        zip(moments(*range(30)), [float("nan"), float("inf"), 1e300, 1e-9, 0.1] * 6, strict=True)
    )
    series += rates("b1:8080", "persistent://tenant/other/odd", odd)
    words = ("--default-bundles", "64")
    assert await imported(FakePrometheus(series), tmp_path / "ours", *words, last=29) == 0
    async with serving_series(series, tmp_path) as url:
        given = ["history", "import", str(tmp_path / "theirs"), "--prometheus", url, *words]
        given += ["--from", iso(FIRST_MS), "--to", iso(FIRST_MS + 29 * STEP_MS)]
        assert await asyncio.to_thread(main, given) == 0
    assert rows_of(tmp_path / "theirs") == rows_of(tmp_path / "ours")


@asynccontextmanager
async def serving_series(series: Sequence[Series], where: Path) -> AsyncIterator[str]:
    """A Prometheus with blocks of these scrapes, on a port of loopback."""
    (where / "scraped.txt").write_text(open_metrics(series))
    await run(
        "promtool", "tsdb", "create-blocks-from", "openmetrics", "scraped.txt", "db", at=where
    )
    (where / "prometheus.yml").write_text(CONFIGURATION)
    port = free_ports()
    with (where / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=db",
            f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.retention.time=100y",
            cwd=where,
            stdout=log,
            stderr=log,
        )
    try:
        await ready(f"http://127.0.0.1:{port}/-/ready", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


def open_metrics(series: Sequence[Series]) -> str:
    """Scrapes as `promtool` reads them."""
    lines = []
    for name in sorted({each.name for each in series}):
        lines.append(f"# TYPE {name} gauge")
        found = {tuple(each.labels.items()): each for each in series if each.name == name}
        for each in found.values():
            labels = ",".join(f"{label}={quoted(value)}" for label, value in each.labels.items())
            lines += [
                f"{name}{{{labels}}} {number(value)} {at / 1000:.3f}"
                for at, value in sorted(each.values.items())
            ]
    return "\n".join([*lines, "# EOF", ""])


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def number(value: float) -> str:
    return {"nan": "NaN", "inf": "+Inf"}.get(str(value), repr(value))


async def ready(url: str, process: asyncio.subprocess.Process) -> None:
    """Return when a server answers; one that ended says why in its log."""
    async with aiohttp.ClientSession() as session:

        async def answers() -> bool:
            assert process.returncode is None, "prometheus ended: see prometheus.log"
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url) as reply:
                    return reply.status == 200
            return False

        await found(answers, "prometheus answers")


async def run(*words: str, at: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *words, cwd=at, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
