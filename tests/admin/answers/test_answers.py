"""A thousand requests, and what Pulsar 4.0.7 answered to each: status, reason and value.

``differs.json`` has what is answered otherwise here, under the reason for it.
"""

from tests.admin.answers.record import NOT_JUDGED, apart, otherwise, play_on_ours, recorded


def test_each_request_is_answered_as_pulsar_answers_it() -> None:
    reasons, ours, theirs, wrong = otherwise(), play_on_ours(), recorded(), []
    differs = {line: said for lines in reasons.values() for line, said in lines.items()}
    for line, said in ours.items():
        expected = differs.get(line, theirs[line])
        for number, each in enumerate(said):
            found = list(apart(expected[number], each))
            wrong += [f"{line} ({number}): {how}" for how in found]
        if line in differs and not any(map(list, map(apart, theirs[line], said))):
            wrong.append(f"{line}: it is the same by now")
    assert not wrong, "\n".join(wrong)
    assert NOT_JUDGED not in reasons
