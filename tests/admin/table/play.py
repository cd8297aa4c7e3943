"""Plays the rows on a cluster, in one session of ``pulsar-admin``, and gives what it answered."""

import json
import re
import shlex
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import pulsar

from tests.admin.conftest import SILENT
from tests.admin.table.compare import Answer, read
from tests.admin.table.row import Row
from tests.apache_tools import AdminTool
from tests.client.official.driver import Driver, started
from tests.waiting import answer_within

WRITES = ("set", "rem", "ena", "dis", "del")


class Session:
    """A cluster, its tool, and a client of it."""

    def __init__(
        self,
        tool: AdminTool,
        service_url: str,
        admin_url: str,
        files: Mapping[str, str],
        *,
        settle_s: float = 0,
    ) -> None:
        """``settle_s``: how long a policy of a topic takes until it can be read back."""
        self.tool = tool
        self._settle_s = settle_s
        self._client = pulsar.Client(service_url, logger=SILENT)
        self._open: list[pulsar.Producer | pulsar.Consumer] = []
        self._clients = ExitStack()
        broker = urlsplit(admin_url).netloc
        self._own = {"SERVICE": service_url, "ADMIN": admin_url, "BROKER": broker, **files}
        self._names = dict(self._own)

    def play(self, rows: Iterable[Row]) -> list[Answer]:
        """One answer for each row that is a command."""
        return [outcome for row in rows if (outcome := self._one(row)) is not None]

    def close(self) -> None:
        self._client.close()
        self._clients.close()

    def _one(self, row: Row) -> Answer | None:
        line = row.line
        for name, value in self._names.items():
            line = line.replace(f"{{{name}}}", value)
        group, what, *rest = shlex.split(line)
        if group == "client":
            getattr(self, f"_{what}")(*rest)
            return None
        worked, text = self.tool.run(group, what, *rest)
        if self._settle_s and group in ("topics", "topicPolicies") and what[:3] in WRITES:
            time.sleep(self._settle_s)  # Pulsar applies policies from a topic that it reads
        for name, value in self._own.items():
            text = text.replace(value, name)
        answer = read(text)
        self._names.update(_kept(answer, row.keep))
        return {"row": row.line, "worked": worked, "answer": answer}

    @cached_property
    def _java_client(self) -> Driver:
        """The Java client, which has transactions."""
        driver = self._clients.enter_context(started("java"))
        driver("connect", url=self._own["SERVICE"], within_s=60, transactions=True)
        return driver

    def _java(self, verb: str, *how: str) -> None:
        """Have the Java client do something; ``name=value`` each, the value as JSON or as it is."""
        pairs = (each.partition("=") for each in how)
        self._java_client(verb, **{name: _value(text) for name, _, text in pairs})

    def _have_coordinators(self, count: str) -> None:
        """At least so many, each used by a client once, without which Pulsar has it not."""
        self.tool.run("transactions", "scale-transactionCoordinators", "-r", count)
        assert self._java_client

    def _wait_for(self, wanted: str, *words: str) -> None:
        """Until what a command prints has this in it."""
        done = answer_within(lambda: wanted in self.tool.run(*words)[1], 60, 0.1)
        assert done, f"never {wanted}: {' '.join(words)}"

    def _publish(self, topic: str, count: str) -> None:
        producer = self._client.create_producer(topic, "publishes", batching_enabled=False)
        for number in range(int(count)):
            producer.send(
                f"message {number}".encode(), properties={"n": str(number)}, partition_key="k"
            )
        producer.close()

    def _wait_for_stats(self, namespace: str) -> None:
        """Until brokers report a namespace: Pulsar's measure once a minute."""
        reported = answer_within(
            lambda: namespace in self.tool.run("broker-stats", "topics")[1], 120
        )
        assert reported, f"no broker reports {namespace}"

    def _wait_until(self, wanted: str, *words: str) -> None:
        """Until a command prints something (``said``), or nothing (``unsaid``)."""
        done = answer_within(
            lambda: (self.tool.run(*words)[1] in ("", "null")) is not (wanted == "said"), 60, 0.01
        )
        assert done, f"never {wanted}: {' '.join(words)}"

    def _connect(self, topic: str, subscription: str) -> None:
        self._open.append(self._client.create_producer(topic, "produces"))
        self._open.append(self._client.subscribe(topic, subscription, consumer_name="consumes"))

    def _disconnect(self) -> None:
        while self._open:
            self._open.pop().close()


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _kept(answer: Any, keep: Mapping[str, str]) -> dict[str, str]:
    found = {name: re.search(pattern, json.dumps(answer)) for name, pattern in keep.items()}
    return {name: match[1] for name, match in found.items() if match}
