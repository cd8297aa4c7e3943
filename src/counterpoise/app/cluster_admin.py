"""Requests to a cluster's admin API, whose errors become sentences with the next step."""

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
"""How long a broker may take to answer a request that changes nothing."""
UNANSWERED = (aiohttp.ClientError, TimeoutError, OSError)
"""The exceptions raised when a broker does not answer, or not by HTTP."""


class ClusterAdmin:
    """A client of a cluster's admin API, which uses whichever broker can be reached."""

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
        """The response of the first broker that can be reached; raises `UserError`."""
        unreached = []
        for url in dict.fromkeys((self._first, *self.urls)):
            try:
                answer = await self.ask_at(url, method, path, body)
                self._first = url  # one that hangs is waited for once
                return answer
            except UNANSWERED as error:
                unreached.append(f"{url}: {error_text(error)}")
        raise UserError(
            f"the cluster cannot be reached: {'; '.join(unreached)} (is --admin-url the web "
            "service of a broker, and is it running?)"
        )

    async def reach(self, url: str, method: str, path: str) -> Json:
        """The response of the broker at `url`, as `ask_at`; raises `UserError` also without one."""
        try:
            return await self.ask_at(url, method, path)
        except (*UNANSWERED, ValueError) as error:  # of a name that makes no address
            raise UserError(f"{line(url)} cannot be reached: {error_text(error)}") from None

    async def brokers(self) -> list[str]:
        """The ids of the active brokers; raises `UserError`."""
        path = "/admin/v2/brokers"
        listed = await self.ask("GET", path)
        return broker_ids(self._first + path, listed)

    async def boundaries(self, namespace: str) -> list[str]:
        """The bundle boundaries of a namespace, as hexadecimal texts; raises `UserError`."""
        path = f"/admin/v2/namespaces/{namespace}/bundles"
        found = await self.ask("GET", path)
        try:
            return [f"0x{int(each, 16):08x}" for each in found["boundaries"]]
        except (KeyError, TypeError, ValueError):
            raise not_expected(self._first + path, "a namespace's boundaries", found) from None

    async def leader(self) -> str | None:
        """The leader's id; None if there is none."""
        try:
            found = await self.ask("GET", "/admin/v2/brokers/leaderBroker")
        except UserError:
            return None
        if not isinstance(found, dict):
            return None
        # Pulsar 2 has no brokerId, and the address of its web service for it.
        leader = found.get("brokerId") or found.get("serviceUrl") or ""
        return str(leader).rpartition("://")[2] or None

    async def owner(self, bundle: str, destination: str = "") -> str | None:
        """The id of a bundle's owner; None if there is none or none answers.

        Asked by lookups (`pipeline/bundle_lookup.py`), so an unowned bundle gets an owner:
        ``destination``, or the broker that the leader chooses.
        """
        brokers = await self.brokers()
        asked = destination or next(iter(brokers), "")
        try:
            return await self._lookup.owner(bundle, asked, brokers, takes=bool(destination)) or None
        except (*UNREADABLE, ValueError):
            return None

    async def until_owned(self, bundle: str, destination: str, wait_s: float) -> str | None:
        """Wait at most `wait_s` seconds until the destination owns the bundle; gives the owner."""
        owner, pause = None, 0.0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while (owner := await self.owner(bundle, destination)) != destination:
                    pause = pause_after(pause)
                    await asyncio.sleep(pause)
        return owner

    async def ask_at(self, url: str, method: str, path: str, body: Json = None) -> Json:
        """The response of the broker at `url`, or of the one to which it redirects: JSON, or a word
        of text.

        Raises `UserError` for an error status and for what no broker answers, such as a proxy's
        page; one of `UNANSWERED` if the broker does not answer.
        """
        # Apache's brokers refuse a change whose body, be it empty, is not called JSON.
        content: dict[str, Any] = {"headers": {"Content-Type": "application/json"}}
        if method == "GET":
            within_s = min(self._answers_within_s, self._session.timeout.total or math.inf)
            content["timeout"] = aiohttp.ClientTimeout(total=within_s)
        if body is not None:
            content["data"] = json.dumps(body)
        # yarl would decode what a topic's name has to have encoded.
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
    """The broker ids in a response; raises `UserError` if it is not a list of them.

    ``asked`` is the URL that gave the response.
    """
    if not (isinstance(listed, list) and all(isinstance(each, str) for each in listed)):
        raise not_expected(asked, "a list of brokers", listed)
    if strange := [each for each in listed if not is_broker(each)]:
        raise not_expected(asked, "a broker's host:port", strange[0])
    return listed


def not_expected(asked: str, what: str, answer: Json) -> UserError:
    """The error for a response that is not what was expected; the caller raises it.

    ``asked`` is the URL, ``what`` the expected response, such as "a list".
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
