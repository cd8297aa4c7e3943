"""Sends requests to a cluster's admin API, and turns errors into sentences with advice."""

import argparse
import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import aiohttp
from yarl import URL

from counterpoise.app.addresses import admin_urls
from counterpoise.app.client import client_session
from counterpoise.app.errors import UserError
from counterpoise.app.progress import while_waiting
from counterpoise.pipeline.bundle_lookup import BundleLookup, pause_after
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions
from counterpoise.pipeline.collect.where import is_broker, web_address
from counterpoise.pipeline.collect.words import WHO, error_text, line

T = TypeVar("T")
Json = Any
ANSWERS_WITHIN_S = 10.0
"""How many seconds a broker may take to answer a GET request."""
UNANSWERED = (aiohttp.ClientError, TimeoutError, OSError)
"""The exceptions that a request raises if no response comes, or one that is not HTTP."""
UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Exceptions of a request that no broker received, so that it can be sent again."""


class ClusterAdmin:
    """A client of a cluster's admin API, which uses the first broker that can be reached."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        urls: Sequence[str],
        answers_within_s: float = ANSWERS_WITHIN_S,
    ) -> None:
        self._session = session
        self.urls = urls
        self._first = urls[0]
        self._answers_within_s = answers_within_s
        admin = Admin(session, AdminOptions())
        self._lookup = BundleLookup(admin, partial(web_address, addresses=urls))

    async def ask(self, method: str, path: str, body: Json = None) -> Json:
        """Request a path of the first broker that can be reached, and return its response.

        A change is not requested again if a broker may have got it. Raises `UserError` then, if
        none can be reached, and as `ask_at` does.
        """
        unreached = []
        for url in dict.fromkeys((self._first, *self.urls)):
            try:
                answer = await self.ask_at(url, method, path, body)
                self._first = url  # asked first from now on: a hanging one delays one request
                return answer
            except UNANSWERED as error:
                if method != "GET" and not isinstance(error, UNSENT):
                    # Another broker would carry it out a second time.
                    raise UserError(
                        f"{url} did not answer, and may carry it out all the same: "
                        f"{error_text(error)}"
                    ) from None
                unreached.append(f"{url}: {error_text(error)}")
        raise UserError(
            f"the cluster cannot be reached: {'; '.join(unreached)} (is --admin-url the web "
            "service of a broker, and is it running?)"
        )

    async def reach(self, url: str, method: str, path: str) -> Json:
        """Send a request as `ask_at` does, but raise `UserError` if the broker does not answer."""
        try:
            return await self.ask_at(url, method, path)
        except (*UNANSWERED, ValueError) as error:  # ValueError: the host name is invalid
            raise UserError(f"{line(url)} cannot be reached: {error_text(error)}") from None

    async def brokers(self) -> list[str]:
        """Return the ids of the active brokers; raises `UserError`."""
        path = "/admin/v2/brokers"
        listed = await self.ask("GET", path)
        return broker_ids(self._first + path, listed)

    async def boundaries(self, namespace: str) -> list[str]:
        """Return the bundle boundaries of a namespace as ``0x…`` texts; raises `UserError`."""
        path = f"/admin/v2/namespaces/{namespace}/bundles"
        found = await self.ask("GET", path)
        try:
            return [f"0x{int(each, 16):08x}" for each in found["boundaries"]]
        except (KeyError, TypeError, ValueError):
            raise not_expected(self._first + path, "a namespace's boundaries", found) from None

    async def leader(self) -> str | None:
        """Return the leader's broker id; None if there is no leader, or no broker names it."""
        try:
            found = await self.ask("GET", "/admin/v2/brokers/leaderBroker")
        except UserError:
            return None
        if not isinstance(found, dict):
            return None
        # Pulsar 2 has no brokerId; there the web service's address is used instead.
        leader = found.get("brokerId") or found.get("serviceUrl") or ""
        return str(leader).rpartition("://")[2] or None

    async def owner(self, bundle: str, destination: str = "") -> str | None:
        """Look up the id of a bundle's owner; None if there is none, or no broker answers.

        As a lookup does, it assigns a bundle without an owner: to ``destination``, or to the broker
        that the leader chooses (`pipeline/bundle_lookup.py`).
        """
        brokers = await self.brokers()
        asked = destination or next(iter(brokers), "")
        try:
            return await self._lookup.owner(bundle, asked, brokers, takes=bool(destination)) or None
        except (*UNREADABLE, ValueError):
            return None

    async def until_owned(self, bundle: str, destination: str, wait_s: float) -> str | None:
        """Look the bundle up until the destination owns it, for at most `wait_s` seconds.

        Each lookup assigns a bundle without an owner to the destination. Returns the id of the last
        owner that was found; None if there was none.
        """
        owner, pause = None, 0.0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while (owner := await self.owner(bundle, destination)) != destination:
                    pause = pause_after(pause)
                    await asyncio.sleep(pause)
        return owner

    async def ask_at(self, url: str, method: str, path: str, body: Json = None) -> Json:
        """Send a request to the broker at `url`; return the parsed JSON, or a text of one word.

        Redirects to other brokers are followed. Raises `UserError` for an error status and for
        content that no broker sends, such as a proxy's page; one of `UNANSWERED` if the broker does
        not answer.
        """
        # Apache's brokers refuse a change without this content type, even without a body.
        content: dict[str, Any] = {"headers": {"Content-Type": "application/json"}}
        if method == "GET":
            within_s = min(self._answers_within_s, self._session.timeout.total or math.inf)
            content["timeout"] = aiohttp.ClientTimeout(total=within_s)
        if body is not None:
            content["data"] = json.dumps(body)
        # Without `encoded` yarl would decode characters that must stay encoded in a topic's name.
        target = URL(url + path, encoded=True)
        async with self._session.request(method, target, **content) as response:
            text = await response.text(errors="replace")
            if response.status >= 400:
                _refuse(f"{url}{path}", response.status, text)
        try:
            return json.loads(text) if text else None
        except ValueError:
            if len(text.split()) == 1 and text.isprintable() and text.isascii():
                return text
            raise not_expected(f"{url}{path}", "JSON", text) from None


def with_cluster(args: argparse.Namespace, work: Callable[[ClusterAdmin], Awaitable[T]]) -> T:
    """Run `work` with the cluster that the command-line options name, and return its result."""
    urls = admin_urls(args.admin_url)

    async def run() -> T:
        async with client_session(args) as session:
            return await while_waiting(work(ClusterAdmin(session, urls)), "asking the cluster")

    return asyncio.run(run())


def broker_ids(asked: str, listed: Json) -> list[str]:
    """Check that the response ``listed`` is a list of broker ids, and return it.

    ``asked`` is the URL that it is from. Raises `UserError` for any other response.
    """
    if not (isinstance(listed, list) and all(isinstance(each, str) for each in listed)):
        raise not_expected(asked, "a list of brokers", listed)
    if strange := [each for each in listed if not is_broker(each)]:
        raise not_expected(asked, "a broker's host:port", strange[0])
    return listed


def not_expected(asked: str, what: str, answer: Json) -> UserError:
    """Make the error for an unexpected response; the caller raises it.

    ``asked`` is the URL, ``what`` describes the expected response, such as "a list".
    """
    shown = line(answer if isinstance(answer, str) else json.dumps(answer))[:80] or "nothing"
    return UserError(
        f"{line(asked)} answers {shown!r}, which is not {what}: is --admin-url the web service of "
        "a broker?"
    )


def _refuse(url: str, status: int, text: str) -> NoReturn:
    try:
        reason = str(json.loads(text)["reason"])
    except (ValueError, KeyError, TypeError):
        reason = text[:200]
    advice = {
        401: f"; {WHO}",
        403: f"; {WHO}" if "anonymous" in reason.lower() else "; this role may not do that",
    }.get(status, "")
    raise UserError(f"{line(url)} answers {status}: {line(reason) or 'no reason given'}{advice}")
