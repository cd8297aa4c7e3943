"""Whose name a page acts in, and what the cluster says that this one may do."""

import base64
import json
from pathlib import Path

import pytest

from counterpoise.console.roles import ASKED, Operator, standing, subject_of
from counterpoise.security.client import ClientSecurity
from counterpoise.security.options import ClientOptions
from tests.pipeline.fake_cluster import FakeCluster


def token_of(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


def by_token(token: str, *, own: bool = False) -> Operator:
    options = ClientOptions(plugin="token", parameters=f"token:{token}")
    return Operator(ClientSecurity(options), own=own)


@pytest.mark.parametrize("subject", ["a", "ab", "abc", "abcd", "ü?>"])
def test_the_subject_of_a_token_is_read_whatever_its_length(subject: str) -> None:
    assert subject_of(token_of({"sub": subject})) == subject


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c.d",
        "e30.!!.c2ln",
        "é.é.é",
        "a.eyJzdWIiOg.c",
        token_of(["sub"]),
        token_of(None),
        token_of({}),
        token_of({"sub": ""}),
        token_of({"sub": "x"}) + ".x",
        token_of({"sub": "x"}).removesuffix(".c2ln"),
    ],
)
def test_what_is_no_token_with_a_subject_has_none(token: str) -> None:
    assert subject_of(token) == ""


def test_a_name_says_whose_credential_it_is(tmp_path: Path) -> None:
    assert Operator().name == "anonymous (no credential is presented to the cluster)"
    assert by_token(token_of({"sub": "ops"})).name == "ops (the console's own token)"
    assert by_token(token_of({"sub": "ops"}), own=True).name == "ops (your token)"
    assert by_token("opaque", own=True).name == "your token"
    assert subject_of(token_of({"sub": "x" * 200})) == "x" * 100
    basic = ClientOptions(plugin="basic", parameters='{"userId":"ops","password":"p:w"}')
    assert Operator(ClientSecurity(basic), own=True).name == "ops (your password)"
    file = tmp_path / "token"
    file.write_text(token_of({"sub": "ops"}))
    operator = Operator(ClientSecurity(ClientOptions(plugin="token", parameters=file.as_uri())))
    file.unlink()
    assert operator.name.startswith("the console's own token, which is out of reach: ")


@pytest.mark.parametrize(
    ("status", "may", "sentence"),
    [
        (200, True, "ops (your token): the cluster takes this for a superuser"),
        (401, False, "the cluster refuses ops (your token): "),
        (403, False, "the cluster refuses ops (your token): "),
        (404, None, "the cluster does not say whether ops (your token) may: "),
        (500, None, "the cluster does not say whether ops (your token) may: "),
    ],
)
async def test_the_cluster_says_who_may(status: int, may: bool | None, sentence: str) -> None:
    async with FakeCluster() as cluster:
        broker = await cluster.add_broker()
        broker.answers[ASKED] = (status, b"{}")
        operator = by_token(token_of({"sub": "ops"}), own=True)
        found = await standing(operator, ["http://127.0.0.1:1", f"http://{broker.name}/"])
        assert (found.may, found.sentence.startswith(sentence)) == (may, True), found
        assert broker.asked.count(ASKED) == 1


async def test_the_first_broker_that_knows_is_enough() -> None:
    async with FakeCluster() as cluster:
        brokers = [await cluster.add_broker() for _ in range(3)]
        for broker, status in zip(brokers, (500, 403, 200), strict=True):
            broker.answers[ASKED] = (status, b"{}")
        found = await standing(Operator(), [f"http://{each.name}" for each in brokers])
        assert found.may is False
        assert [each.asked.count(ASKED) for each in brokers] == [1, 1, 0]
    nowhere = await standing(Operator(), [])
    assert (nowhere.may, nowhere.sentence[-5:]) == (None, "may: ")
