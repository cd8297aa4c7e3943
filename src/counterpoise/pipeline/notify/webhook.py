"""Sends notices to a webhook from its own task, so that nothing waits for it."""

import asyncio
import contextlib
import hashlib
import hmac
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from counterpoise.names.callbacks import SentenceSink
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.collect.words import error_text, line
from counterpoise.pipeline.notify.formats import ALERTS_PATH, NoticeContext, NotifyFormat, body_of
from counterpoise.pipeline.notify.notice import Notice, NoticeKind, NoticeSeverity

SIGNATURE: Final = "X-Counterpoise-Signature"
"""The header that has ``sha256=`` and the HMAC of the body."""
_PASSES: Final = (408, 425, 429, 500, 502, 503, 504)


class NotifyError(ExplainedError):
    """The settings of a webhook are invalid, or it did not accept a notice."""


class NoticeFate(StrEnum):
    """What happened to a notice: sent, failed, or dropped because too many were queued."""

    SENT = "sent"
    FAILED = "failed"
    DROPPED = "dropped"


FateCounter = Callable[[NoticeFate], None]
"""Counts what happened to a notice, such as that it was sent."""


@dataclass(frozen=True, slots=True)
class NotifyOptions:
    """Where notices are sent, and how."""

    url: str
    shape: NotifyFormat = NotifyFormat.JSON
    secret: bytes = field(default=b"", repr=False)
    context: NoticeContext = field(default_factory=NoticeContext)
    every_s: float = 2.0
    """Seconds between two notices, after `at_once` were sent without a pause."""
    at_once: int = 10
    kept: int = 100
    """The most notices that wait to be sent; if there are more, the oldest is dropped."""
    tries: int = 5
    pause_s: float = 1.0
    """Seconds before the second try; twice as long before each further one."""
    timeout_s: float = 10.0
    last_s: float = 5.0
    """Seconds in which queued notices are still sent when the balancer ends."""

    @property
    def address(self) -> str:
        """The webhook's address for a log, without its path, which may be a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def read_secret(path: Path) -> bytes:
    """The secret in a file, without the trailing line break; raises `NotifyError`."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise NotifyError(
            f"--notify-secret-file {path}: cannot be read: {error.strerror}"
        ) from None
    if not secret:
        raise NotifyError(f"--notify-secret-file {path}: it is empty")
    return secret


def expect_url(url: str, shape: NotifyFormat) -> str:
    """The URL of a webhook, completed for its format; raises `NotifyError` if it is invalid."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise NotifyError(f"--notify: expected http://… or https://… ({error})") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise NotifyError("--notify: expected http://… or https://…")
    if shape is NotifyFormat.ALERTMANAGER and parts.path in ("", "/"):
        return url.rstrip("/") + ALERTS_PATH
    return url


class WebhookNotifier:
    """A `NoticeSink` that sends to one webhook; made by `notifying`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        options: NotifyOptions,
        log: SentenceSink,
        count: FateCounter,
    ) -> None:
        self._session = session
        self._options = options
        self._log = log
        self._count = count
        self._waiting: deque[Notice] = deque()
        self._dropped = 0
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._refused = ""
        """Why the last notice could not be sent; empty if it was."""

    def __call__(self, notice: Notice) -> None:
        """Queue a notice; if there are too many, the oldest is dropped."""
        if len(self._waiting) >= self._options.kept:
            self._waiting.popleft()
            self._dropped += 1
            self._count(NoticeFate.DROPPED)
        self._waiting.append(notice)
        self._idle.clear()
        self._news.set()

    async def run(self) -> None:
        """Send queued notices until cancelled."""
        loop = asyncio.get_running_loop()
        allowed, since = float(self._options.at_once), loop.time()
        while True:
            await self._news.wait()
            now = loop.time()
            most, every = self._options.at_once, self._options.every_s
            allowed, since = min(most, allowed + (now - since) / every), now
            if allowed < 1:
                await asyncio.sleep((1 - allowed) * every)
                continue
            allowed -= 1
            await self._send(self._next())
            if not self._waiting:
                self._news.clear()
                self._idle.set()

    async def sent(self) -> None:
        """Wait until no notice waits to be sent."""
        await self._idle.wait()

    def _next(self) -> Notice:
        notice, dropped = self._waiting.popleft(), self._dropped
        if not dropped:
            return notice
        self._dropped = 0
        before = "1 notice before it was" if dropped == 1 else f"{dropped:,} notices before it were"
        return replace(notice, sentence=f"{notice.sentence} ({before} too many)")

    async def _send(self, notice: Notice) -> None:
        try:
            await deliver(self._session, self._options, notice)
        except NotifyError as error:
            self._count(NoticeFate.FAILED)
            if str(error) != self._refused:
                self._log(f"an operator could not be notified: {error}")
            self._refused = str(error)
        else:
            self._count(NoticeFate.SENT)
            if self._refused:
                self._log(f"{self._options.address} takes notices again")
            self._refused = ""


async def deliver(session: aiohttp.ClientSession, options: NotifyOptions, notice: Notice) -> None:
    """Send one notice, again after transient errors; raises `NotifyError`."""
    body = body_of(notice, options.shape, options.context)
    headers = {"Content-Type": "application/json"}
    if options.secret:
        headers[SIGNATURE] = f"sha256={hmac.new(options.secret, body, hashlib.sha256).hexdigest()}"
    timeout = aiohttp.ClientTimeout(total=options.timeout_s)
    pause_s, trouble = options.pause_s, ""
    for attempt in range(options.tries):
        if attempt:
            await asyncio.sleep(pause_s)
            pause_s *= 2
        try:
            request = session.post(
                options.url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            )
            async with request as reply:
                text = line((await reply.content.read(300)).decode(errors="replace"))
                if 200 <= reply.status < 300:
                    return
                trouble = f"HTTP {reply.status} {text}".strip()
                if reply.status not in _PASSES:
                    break
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The error's text may contain the URL, whose path may be a secret.
            trouble = error_text(error).replace(options.url, options.address)
        except ValueError:
            raise NotifyError("--notify: it is no address") from None
    raise NotifyError(f"{options.address} does not take notices: {trouble}")


@contextlib.asynccontextmanager
async def notifying(
    options: NotifyOptions, log: SentenceSink, count: FateCounter
) -> AsyncIterator[WebhookNotifier]:
    """Send notices to a webhook during the block; queued ones get a few seconds at its end."""
    async with aiohttp.ClientSession() as session:
        notifier = WebhookNotifier(session, options, log, count)
        sending = asyncio.create_task(notifier.run())
        try:
            yield notifier
        finally:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(notifier.sent(), options.last_s)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


def notice_of_a_test(at_ms: int) -> Notice:
    """The notice that ``counterpoise notify test`` sends."""
    sentence = "this is a test: the webhook takes notices of counterpoise"
    return Notice(NoticeKind.TEST, NoticeSeverity.INFO, "test", sentence, at_ms)
