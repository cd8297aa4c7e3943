"""Which broker owns a bundle: the first one's word, and that of the one which it names."""

import asyncio
import json
from typing import cast

import pytest

from counterpoise.pipeline.bundle_lookup import BundleLookup
from counterpoise.pipeline.collect.admin import Admin, RefusedError, Reply

BUNDLE = "t/n/0x00000000_0xffffffff"
FIRST, SECOND, THIRD = "b1:80", "b2:80", "b3:80"


class Names:
    """Brokers that name each an owner, or answer with a status."""

    def __init__(self, **answers: str | int) -> None:
        self._answers = answers
        self.asked: list[tuple[str, bool]] = []

    async def ask(self, url: str, *, redirects: bool) -> Reply:
        assert redirects
        broker = url.removeprefix("http://").partition("/")[0]
        self.asked.append((broker, url.endswith("?authoritative=true")))
        answer = self._answers[broker.partition(":")[0]]
        if isinstance(answer, int):
            return Reply(answer, b"its reason", {})
        return Reply(200, answer.encode(), {})

    def owner(self, believed: tuple[str, ...] = (), *, takes: bool = False) -> str:
        lookup = BundleLookup(cast("Admin", self), "http://{}".format)
        return asyncio.run(lookup.owner(BUNDLE, FIRST, takes=takes, believed=believed))


def owned_by(broker: str, scheme: str = "httpUrl") -> str:
    return json.dumps({scheme: f"https://{broker}"})


def test_the_first_broker_is_believed_of_itself_and_of_those_that_are_believed() -> None:
    alone = Names(b1=owned_by(FIRST))
    assert alone.owner(takes=True) == FIRST
    assert alone.asked == [(FIRST, True)]
    other = Names(b1=owned_by(SECOND))
    assert other.owner((SECOND,)) == SECOND
    assert other.asked == [(FIRST, False)]


def test_another_broker_that_is_named_has_to_say_so_itself_and_takes_nothing() -> None:
    for said in (SECOND, THIRD):
        names = Names(b1=owned_by(SECOND), b2=owned_by(said, "httpUrlTls"))
        assert names.owner(takes=True) == said
        assert names.asked == [(FIRST, True), (SECOND, False)]


@pytest.mark.parametrize(
    ("answer", "why"),
    [(503, "its reason"), ("{}", "does not say where the web service"), ("[]", "cannot be read"),
     ("<html>", "cannot be read")],
)  # fmt: skip
def test_an_answer_that_names_no_owner_is_refused_with_the_brokers_words(
    answer: str | int, why: str
) -> None:
    with pytest.raises(RefusedError, match=why):
        Names(b1=answer).owner()
