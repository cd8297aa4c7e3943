"""Passwords: which are accepted, and the same work for a user that is not there."""

import asyncio
import base64
import threading

import pytest
from passlib.context import CryptContext
from passlib.hash import apr_md5_crypt, sha512_crypt

from counterpoise.names.options import ConfigError
from counterpoise.security.identity import AuthenticationError, Credentials
from counterpoise.security.passwords import PasswordProvider
from tests.waiting import until


def provider(*lines: str) -> PasswordProvider:
    text = "\n".join(lines).encode()
    return PasswordProvider("data:;base64," + base64.b64encode(text).decode())


HASHES = {
    "apr_md5_crypt": apr_md5_crypt.hash("right"),
    "sha512_crypt": sha512_crypt.using(rounds=1500).hash("right"),
}


async def role(believing: PasswordProvider, shown: str) -> str:
    return (await believing.authenticate(Credentials("basic", shown.encode()))).role


@pytest.mark.parametrize("scheme", HASHES)
async def test_the_right_password_is_accepted_and_no_other(scheme: str) -> None:
    found = provider(f"alice:{HASHES[scheme]}", "", f"bob:{apr_md5_crypt.hash('b:b')}")
    assert await role(found, "alice:right") == "alice"
    assert await role(found, "bob:b:b") == "bob", "a password may hold a colon"
    # What a hash cannot take is refused as well: a zero byte, and more than passlib looks at.
    odd = ("alice:right\0", f"alice:{'x' * 5000}")
    wrongs = ("alice:wrong", "alice:", "bob:right", "eve:right", ":right", "alice:b:b", *odd)
    for wrong in wrongs:
        with pytest.raises(AuthenticationError, match="Unknown user or invalid password"):
            await role(found, wrong)
    with pytest.raises(AuthenticationError, match="Base64 decoded"):
        await role(found, "alice")


@pytest.mark.parametrize("scheme", HASHES)
async def test_an_unknown_user_costs_the_hash_of_a_known_one(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = provider(f"alice:{HASHES[scheme]}")
    hashed: list[tuple[str, int]] = []
    verify = CryptContext.verify

    def noted(self: CryptContext, secret: str, hash: str, **more: object) -> bool:  # noqa: A002
        handler = self.handler(self.identify(hash)).from_string(hash)
        hashed.append((handler.name, getattr(handler, "rounds", 0)))
        return bool(verify(self, secret, hash, **more))

    monkeypatch.setattr(CryptContext, "verify", noted)
    for user in ("alice", "eve"):
        with pytest.raises(AuthenticationError):
            await role(found, f"{user}:wrong")
    known, unknown = hashed
    assert known == unknown


async def test_two_passwords_at_most_are_hashed_at_once_and_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = provider(f"alice:{HASHES['apr_md5_crypt']}")
    at_once: list[int] = []
    under_way, go_on = 0, threading.Event()

    def slowly(_: CryptContext, secret: str, hash: str) -> bool:  # noqa: A002
        nonlocal under_way
        under_way += 1
        at_once.append(under_way)
        assert go_on.wait(60)
        under_way -= 1
        return bool(secret and hash)

    monkeypatch.setattr(CryptContext, "verify", slowly)
    asked = [asyncio.create_task(role(found, "alice:right")) for _ in range(5)]
    await until(lambda: len(at_once) == 2)
    go_on.set()
    assert await asyncio.gather(*asked) == ["alice"] * 5
    assert max(at_once) == 2


@pytest.mark.parametrize(
    "line",
    ["alice", f":{HASHES['apr_md5_crypt']}", "alice:plain", f"a:{HASHES['apr_md5_crypt']}:x"],
    ids=["a name alone", "no name", "a plain password", "a field too many"],  # hashes are salted
)
def test_a_line_that_is_no_user_is_reported_without_what_it_says(line: str) -> None:
    with pytest.raises(ConfigError, match="basicAuthConf") as refused:
        provider(f"bob:{HASHES['apr_md5_crypt']}", line)
    assert line not in str(refused.value)
