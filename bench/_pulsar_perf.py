"""`pulsar-perf`, Apache Pulsar's own load generator, as a measuring instrument.

A client in Java that publishes more than a million messages a second when batched, so that with it
too the broker is what is measured.
"""

import contextlib
import os
import re
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import answer_within

from bench._admin import RefusedError, call
from bench._ours import Ours
from bench._real_pulsar import RealPulsar, log_to_console
from counterpoise.app.clusters.java import find_java

TOOL = "org.apache.pulsar.testclient.PulsarPerfTestTool"
START_S = 30
"""How long its producer may take until the first message is stored."""
PENDING = {True: 20_000, False: 5_000}
"""Messages under way, batched or not: without a limit the client's own heap is what is measured."""
_TOTAL = re.compile(r"Aggregated throughput stats --- +\d+ records sent --- +([\d.]+) msg/s")
_RECEIVED = re.compile(r"Aggregated throughput stats --- +\d+ records received --- +([\d.]+) msg/s")
_TRANSACTIONS = re.compile(
    r"Aggregated throughput stats --- +\d+ transaction executed --- +([\d.]+) transaction/s"
    r".*?(\d+) transaction open failed.*?(\d+) transaction end failed.*?(\d+) message send failed"
)


def available(lib: Path) -> bool:
    """Whether the tool is among Pulsar's jars."""
    return any(lib.glob("pulsar-testclient-*.jar"))


def produce(
    lib: Path, server: Ours | RealPulsar, *, batched: bool, seconds: int
) -> dict[str, float]:
    """Messages of 100 bytes a second, over about ``seconds``, the client's warming up included."""
    words = _producing(_topic(), batched=batched, seconds=seconds)
    found = _TOTAL.search(_said(lib, server, words, within_s=seconds + 60))
    return {"messages_per_second": float(_there(found)[1])}


def consume(
    lib: Path, server: Ours | RealPulsar, kind: str, *, batched: bool, seconds: int
) -> dict[str, float]:
    """Messages of 100 bytes a second that a consumer is sent while `produce` publishes.

    ``kind``: the subscription's type, as in ``Exclusive``. The consumer comes once messages do.
    ``handled``: messages that the broker took and sent meanwhile.
    """
    topic = _topic()
    producing = _producing(topic, batched=batched, seconds=seconds + START_S)
    words = ["consume", "-st", kind, "-sp", "Latest", "-time", str(seconds), "-i", "1", topic]
    with _tool(lib, server, producing):
        url = f"{server.admin_url}/admin/v2/{topic.replace('://', '/')}/stats"
        if not answer_within(lambda: _handled(url), START_S, 0.1):
            raise SystemExit(f"pulsar-perf published nothing within {START_S} s")
        found = _RECEIVED.search(_said(lib, server, words, within_s=seconds + 60))
        handled = _handled(url)
    return {"messages_per_second": float(_there(found)[1]), "handled": float(handled)}


def _producing(topic: str, *, batched: bool, seconds: int) -> list[str]:
    words = ["produce", "-s", "100", "-r", "10000000", "-m", "0", "-time", str(seconds), "-i", "1"]
    return [*words, "-o", str(PENDING[batched]), *(() if batched else ("-db",)), topic]


def _handled(url: str) -> int:
    """The messages that a topic has taken and sent, by its statistics."""
    try:
        stats = call("GET", url)
        return int(stats["msgInCounter"] + stats["msgOutCounter"])
    except RefusedError:
        return 0  # The topic is not there yet.


def transact(
    lib: Path, server: Ours | RealPulsar, *, count: int, messages: int, threads: int
) -> dict[str, float]:
    """Transactions a second that publish so many messages of 1,024 bytes and commit.

    ``threads`` transactions are open at once; ``count`` of them are counted, after the client has
    connected. ``failed``: transactions that could not be opened or ended, and their messages.
    """
    words = ["transaction", "-ntxn", str(count), "-nmp", str(messages), "-nmc", "0"]
    words += ["-threads", str(threads), "-tto", "60", "-u", server.service_url]
    words += ["-au", server.admin_url, "--topics-p", _topic(), "--topics-c", _topic()]
    said = _said(lib, server, words, within_s=240)
    found = _there(_TRANSACTIONS.search(said))
    rate, *failed = found.groups()
    return {"transactions_per_second": float(rate), "failed": float(sum(map(int, failed)))}


def _topic() -> str:
    return f"persistent://public/default/perf-{uuid.uuid4().hex[:8]}"


def _there(found: re.Match[str] | None) -> re.Match[str]:
    if found is None:
        raise SystemExit("pulsar-perf ended without its line of totals")
    return found


def _said(lib: Path, server: Ours | RealPulsar, words: list[str], *, within_s: float) -> str:
    """What the tool printed; its figures are log lines."""
    with _tool(lib, server, words) as running:
        said, complaint = running.communicate(timeout=within_s)
    if running.returncode:
        raise SystemExit(f"pulsar-perf failed:\n{said[-2000:]}{complaint[-2000:]}")
    return said


@contextlib.contextmanager
def _tool(
    lib: Path, server: Ours | RealPulsar, words: list[str]
) -> Iterator[subprocess.Popen[str]]:
    """The tool at work on a server; ended with the block."""
    with tempfile.TemporaryDirectory(prefix="counterpoise-perf-") as text:
        folder = Path(text)
        log_to_console(folder / "log4j2.properties", level="info")
        (folder / "client.conf").write_text(
            f"serviceUrl={server.service_url}\nbrokerServiceUrl={server.service_url}\n"
            f"webServiceUrl={server.admin_url}\n",
            encoding="utf-8",
        )
        java = (str(find_java()), "-Xmx1g", "-Dlog4j.configurationFile=log4j2.properties")
        running = subprocess.Popen(
            [*java, TOOL, "client.conf", *words],
            cwd=folder,
            env={**os.environ, "CLASSPATH": f"{lib}/*"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with running:
            try:
                yield running
            finally:
                running.kill()
