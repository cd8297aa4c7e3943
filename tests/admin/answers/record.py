"""What real Pulsar answered, kept; ``python -m tests.admin.answers.record`` asks it again."""

import http.client
import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.admin.answers.asked import Asked, asked

VECTORS = Path(__file__).with_name("pulsar-4.0.7.json")
WITHIN_S = 6
NO_ANSWER = 0
"""The status of a request to which there was no answer in time: some Pulsar forgets."""
JSON = {"Content-Type": "application/json"}

Said = tuple[int, Any]
"""A status, and with it the value, or of a refusal the reason."""


def play(admin_url: str) -> dict[str, list[Said]]:
    """Ask a cluster everything: its answers by line, which may come more than once."""
    connection = http.client.HTTPConnection(urlsplit(admin_url).netloc, timeout=WITHIN_S)
    found: dict[str, list[Said]] = {}
    for each in asked():
        try:
            connection.request(each.method, each.path, each.body, JSON)
            said = _said(each, connection.getresponse())
        except TimeoutError:
            connection.close()
            said = (NO_ANSWER, None)
        if each.compared:
            found.setdefault(each.line, []).append(said)
    connection.close()
    return found


def _said(request: Asked, response: http.client.HTTPResponse) -> Said:
    text = response.read().decode()
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if response.status >= 400:
        reason = value["reason"] if isinstance(value, dict) and "reason" in value else value
        return response.status, str(reason).partition("\n")[0]
    return response.status, value if request.with_value else None


def recorded() -> dict[str, list[Said]]:
    """What Pulsar answered to each line."""
    found = json.loads(VECTORS.read_text())
    return {line: [(status, value) for status, value in said] for line, said in found.items()}


def main() -> int:
    """Ask a Pulsar of this machine, and keep what it says."""
    from bench._real_pulsar import standalone

    from tests.conformance.jars import pulsar_lib

    lib = pulsar_lib()
    if lib is None:
        return 2
    with (
        tempfile.TemporaryDirectory() as folder,
        standalone(lib, Path(folder) / "pulsar") as real,
    ):
        found = play(real.admin_url)
    lines = (f"{json.dumps(line)}: {json.dumps(said)}" for line, said in found.items())
    VECTORS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
