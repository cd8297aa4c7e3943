"""Eight hundred requests, and what Pulsar 4.0.7 answered to each: status, reason and value.

``differs.json`` has what is answered otherwise here: other words for the same refusal, a status
where Pulsar ends with 500 or never answers, and what `docs/` says is different.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpoise import Cluster
from tests.admin.answers.record import Said, play, recorded
from tests.admin.table.compare import differences

OTHERWISE = Path(__file__).with_name("differs.json")


def apart(theirs: Said, ours: Said) -> Iterator[str]:
    """How two answers to a request differ."""
    if theirs[0] != ours[0] or (ours[0] >= 400 and theirs[1] != ours[1]):
        yield f"{theirs} there, {ours} here"
    elif ours[0] < 400:
        yield from (f"{path}: {how}" for path, how in differences(theirs[1], ours[1]))


def test_each_request_is_answered_as_pulsar_answers_it() -> None:
    otherwise: dict[str, list[Any]] = json.loads(OTHERWISE.read_text())
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with Cluster(brokers=1) as cluster:
            ours = play(cluster.admin_url)
    finally:
        logging.disable(level)
    theirs, wrong = recorded(), []
    for line, said in ours.items():
        expected = [tuple(each) for each in otherwise.get(line, theirs[line])]
        for number, each in enumerate(said):
            found = list(apart(expected[number], each))
            wrong += [f"{line} ({number}): {how}" for how in found]
        if line in otherwise and not any(map(list, map(apart, theirs[line], said))):
            wrong.append(f"{line}: it is the same by now")
    assert not wrong, "\n".join(wrong)
