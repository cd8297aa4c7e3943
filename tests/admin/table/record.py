"""What real Pulsar answered, kept; and what is needed to ask ours the same."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counterpoise import Cluster
from tests.admin.table.compare import Answer, Keyed, keyed
from tests.admin.table.play import Session
from tests.admin.table.session import SESSIONS
from tests.apache_tools import LIB, admin_tool

VECTORS = Path(__file__).with_name("pulsar-4.0.7.json")
GROUPS = (
    "brokers",
    "broker-stats",
    "namespaces",
    "topics",
    "topicPolicies",
    "resourcegroups",
    "ns-isolation-policy",
    "clusters",
    "tenants",
    "schemas",
    "transactions",
)
"""The groups of commands that the table is about."""
SETTLE_S = 0.4


def recorded() -> dict[str, Any]:
    """``commands`` by group, and ``answers`` in the session's order."""
    found: dict[str, Any] = json.loads(VECTORS.read_text())
    return found


@contextmanager
def session(service_url: str, admin_url: str, folder: Path, **more: float) -> Iterator[Session]:
    """A session of the tool on a cluster."""
    files = _files(folder)
    with admin_tool(admin_url) as tool:
        made = Session(tool, service_url, admin_url, files, **more)
        try:
            yield made
        finally:
            made.close()


def play_on_ours(folder: Path) -> Keyed:
    """Play all sessions, each on a cluster of ours."""
    answers: list[Answer] = []
    for rows, settings in SESSIONS:
        with (
            Cluster(brokers=1, config=settings) as cluster,
            session(cluster.service_url, cluster.admin_url, folder) as made,
        ):
            answers += made.play(rows)
    return keyed(answers)


def _files(folder: Path) -> dict[str, str]:
    """What the commands about schemas are given."""
    fields = [{"name": "id", "type": "string"}]
    one = {"type": "record", "name": "Order", "namespace": "acme", "fields": fields}
    other = {**one, "fields": [{"name": "id", "type": "int"}]}
    found = {}
    for name, schema in (("SCHEMA", one), ("OTHER_SCHEMA", other)):
        path = folder / f"{name.lower()}.json"
        schema_file = {"type": "AVRO", "schema": json.dumps(schema), "properties": {"by": "ops"}}
        path.write_text(json.dumps(schema_file))
        found[name] = str(path)
    assert LIB is not None
    found["JAR"] = str(next(LIB.glob("pulsar-client-admin-api-*.jar")))
    return found
