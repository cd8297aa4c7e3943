"""Eight hundred requests, and what Pulsar 4.0.7 answered to each: status, reason and value.

``differs.json`` has what is answered otherwise here: other words for the same refusal, a status
where Pulsar ends with 500 or never answers, and what `docs/` says is different.
"""

import json
from typing import Any

from tests.admin.answers.record import OTHERWISE, apart, play_on_ours, recorded


def test_each_request_is_answered_as_pulsar_answers_it() -> None:
    otherwise: dict[str, list[Any]] = json.loads(OTHERWISE.read_text())
    ours, theirs, wrong = play_on_ours(), recorded(), []
    for line, said in ours.items():
        expected = [tuple(each) for each in otherwise.get(line, theirs[line])]
        for number, each in enumerate(said):
            found = list(apart(expected[number], each))
            wrong += [f"{line} ({number}): {how}" for how in found]
        if line in otherwise and not any(map(list, map(apart, theirs[line], said))):
            wrong.append(f"{line}: it is the same by now")
    assert not wrong, "\n".join(wrong)
