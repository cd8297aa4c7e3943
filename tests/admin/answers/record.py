"""What real Pulsar answered, kept; ``python -m tests.admin.answers.record`` asks it again.

``--ours`` writes down what ours answers otherwise, under the reason for it. What is new is
`NOT_JUDGED`, and the test fails until it has a reason.
"""

import http.client
import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from counterpoise import Cluster
from tests.admin.answers.asked import Asked, asked
from tests.admin.table.compare import differences

VECTORS = Path(__file__).with_name("pulsar-4.0.7.json")
OTHERWISE = Path(__file__).with_name("differs.json")
NOT_JUDGED = "not judged"
PULSARS_WITHIN_S, OURS_WITHIN_S = 6, 120
NO_ANSWER = 0
"""The status of a request to which there was no answer in time: some Pulsar forgets."""
JSON = {"Content-Type": "application/json"}

Said = tuple[int, Any]
"""A status, and with it the value, or of a refusal the reason."""


def play(admin_url: str, within_s: float) -> dict[str, list[Said]]:
    """Ask a cluster everything: its answers by line, which may come more than once."""
    connection = http.client.HTTPConnection(urlsplit(admin_url).netloc, timeout=within_s)
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


def play_on_ours() -> dict[str, list[Said]]:
    """Ask a cluster of ours, without what it logs of policies that nothing reads."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with Cluster(brokers=1) as cluster:
            return play(cluster.admin_url, OURS_WITHIN_S)
    finally:
        logging.disable(level)


def recorded() -> dict[str, list[Said]]:
    """What Pulsar answered to each line."""
    found = json.loads(VECTORS.read_text())
    return {line: [(status, value) for status, value in said] for line, said in found.items()}


def apart(theirs: Said, ours: Said) -> Iterator[str]:
    """How two answers to a request differ."""
    if theirs[0] != ours[0] or (ours[0] >= 400 and theirs[1] != ours[1]):
        yield f"{theirs} there, {ours} here"
    elif ours[0] < 400:
        yield from (f"{path}: {how}" for path, how in differences(theirs[1], ours[1]))


def otherwise() -> dict[str, dict[str, list[Said]]]:
    """What ours answers otherwise, line by line, under the reason for it."""
    found = json.loads(OTHERWISE.read_text())
    return {
        reason: {line: [(status, value) for status, value in said] for line, said in lines.items()}
        for reason, lines in found.items()
    }


def _listed(found: Mapping[str, Sequence[Said]]) -> str:
    lines = (f"{json.dumps(line)}: {json.dumps(said)}" for line, said in found.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def main(words: Sequence[str]) -> int:
    """Ask a Pulsar of this machine, or ours, and keep what it says."""
    if "--ours" in words:
        theirs = recorded()
        pairs = [(line, said, theirs[line]) for line, said in play_on_ours().items()]
        why = {line: reason for reason, lines in otherwise().items() for line in lines}
        found: dict[str, dict[str, list[Said]]] = {}
        for line, said, their in pairs:
            if any(map(list, map(apart, their, said))):
                found.setdefault(why.get(line, NOT_JUDGED), {})[line] = said
        groups = (f"{json.dumps(reason)}: {_listed(lines)}" for reason, lines in found.items())
        OTHERWISE.write_text("{\n" + ",\n".join(groups) + "\n}\n")
        return 0
    from bench._real_pulsar import standalone

    from tests.conformance.jars import pulsar_lib

    lib = pulsar_lib()
    if lib is None:
        return 2
    with tempfile.TemporaryDirectory() as folder, standalone(lib, Path(folder) / "pulsar") as real:
        VECTORS.write_text(_listed(play(real.admin_url, PULSARS_WITHIN_S)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
