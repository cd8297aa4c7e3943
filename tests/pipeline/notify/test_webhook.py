"""Notices: their shapes, their signature, and that a webhook delays and stops nothing."""

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from counterpoise.app.main import main
from counterpoise.pipeline.notify.formats import NoticeContext, NotifyFormat, body_of
from counterpoise.pipeline.notify.notice import Notice, NoticeKind, NoticeSeverity
from counterpoise.pipeline.notify.webhook import (
    NoticeFate,
    NotifyOptions,
    WebhookNotifier,
    expect_url,
    notifying,
    read_secret,
)
from tests.pipeline.notify.hook_server import hooked
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

AT_MS = 1_700_000_000_000
FOUND = Notice(
    NoticeKind.FINDING,
    NoticeSeverity.CRITICAL,
    "no-owner:t/n/0x0_0x1",
    "no broker owns <it> & so",
    AT_MS,
)
CONTEXT = NoticeContext("east", "http://grafana/d/1")
SECOND_NS = 1_000_000_000


class ScriptedSession:
    """Answers each request by the next status; None: it never answers."""

    def __init__(self, *statuses: int | Exception | None) -> None:
        self.statuses = list(statuses)
        self.sent: list[tuple[int, Any]] = []
        """When each request came, in seconds, and its body."""

    @contextlib.asynccontextmanager
    async def post(self, _: str, *, data: bytes, **more: Any) -> AsyncIterator[Any]:
        self.sent.append((now_ns() // SECOND_NS, json.loads(data)))
        status = self.statuses.pop(0) if self.statuses else 200
        if isinstance(status, Exception):
            raise status
        if status is None:
            await pass_time(more["timeout"].total)
            raise TimeoutError
        yield ScriptedReply(status)


class ScriptedReply:
    def __init__(self, status: int) -> None:
        self.status = status
        self.content = self

    async def read(self, most: int) -> bytes:
        return b"it says why"[:most]


class Sending:
    """A notifier that sends to a script."""

    def __init__(self, session: ScriptedSession, **options: Any) -> None:
        self.session, self.log, self.fates = session, list[str](), Counter[NoticeFate]()
        made = NotifyOptions("http://hook/secret-path", **options)
        count = self.fates.update
        self.notifier = WebhookNotifier(
            cast("aiohttp.ClientSession", session),
            made,
            self.log.append,
            lambda fate: count([fate]),
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[WebhookNotifier]:
        task = asyncio.create_task(self.notifier.run())
        try:
            yield self.notifier
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_plain_json_has_all_of_a_notice() -> None:
    assert json.loads(body_of(FOUND, NotifyFormat.JSON, CONTEXT)) == {
        "version": 1,
        "kind": "finding",
        "severity": "critical",
        "subject": "no-owner:t/n/0x0_0x1",
        "sentence": "no broker owns <it> & so",
        "at": "2023-11-14T22:13:20Z",
        "over": False,
        "cluster": "east",
        "link": "http://grafana/d/1",
    }


def test_slack_gets_one_line_without_markup_of_another() -> None:
    assert json.loads(body_of(FOUND, NotifyFormat.SLACK, CONTEXT)) == {
        "text": "🔴 *finding* of east: no broker owns &lt;it&gt; &amp; so <http://grafana/d/1|look>"
    }


def test_alertmanager_ends_the_alert_that_it_began() -> None:
    over = Notice(
        NoticeKind.FINDING, NoticeSeverity.INFO, FOUND.subject, "over", AT_MS + 5000, True
    )
    began, ended = (
        json.loads(body_of(each, NotifyFormat.ALERTMANAGER, CONTEXT))[0] for each in (FOUND, over)
    )
    assert began["labels"] == ended["labels"]
    assert began["labels"]["alertname"] == "CounterpoiseFinding"
    assert began["startsAt"] == "2023-11-14T22:13:20Z"
    assert began["endsAt"] > "2023-11-20"
    assert ended["endsAt"] == "2023-11-14T22:13:25Z"
    assert "startsAt" not in ended, "it is the one that began"
    assert began["annotations"]["summary"] == FOUND.sentence


@pytest.mark.parametrize(
    ("kind", "minutes"),
    [
        (NoticeKind.FINDING, 7 * 24 * 60),
        (NoticeKind.STOP, 7 * 24 * 60),
        (NoticeKind.ROUND, 15),
        (NoticeKind.REFUSAL, 15),
    ],
)
def test_an_alert_of_what_goes_on_fires_for_a_week_and_one_of_a_moment_for_a_quarter_hour(
    kind: NoticeKind, minutes: int
) -> None:
    """A label that would be empty is left out: Alertmanager refuses none, and silences by them."""
    notice = replace(FOUND, kind=kind)
    [alert] = json.loads(body_of(notice, NotifyFormat.ALERTMANAGER, CONTEXT))
    starts, ends = (datetime.fromisoformat(alert[name]) for name in ("startsAt", "endsAt"))
    assert ends - starts == timedelta(minutes=minutes)
    assert (alert["labels"]["cluster"], alert["generatorURL"]) == (CONTEXT.cluster, CONTEXT.link)
    [alert] = json.loads(body_of(notice, NotifyFormat.ALERTMANAGER, NoticeContext()))
    assert "cluster" not in alert["labels"]
    assert "generatorURL" not in alert


def test_in_slack_what_is_over_is_marked_as_such_whatever_it_was() -> None:
    over = replace(FOUND, is_over=True)
    text = json.loads(body_of(over, NotifyFormat.SLACK, NoticeContext()))["text"]
    assert text == "✅ *finding*: no broker owns &lt;it&gt; &amp; so"


def test_a_sentence_that_is_no_text_is_sent_all_the_same() -> None:
    odd = Notice(NoticeKind.ROUND, NoticeSeverity.INFO, "\ud800", "half \udfff of a pair", AT_MS)
    for shape in NotifyFormat:
        assert b"half ? of a pair" in body_of(odd, shape, CONTEXT)


async def test_a_body_is_signed_by_the_secret(tmp_path: Path) -> None:
    """By that of a file as an editor leaves it."""
    file = tmp_path / "secret"
    file.write_bytes(b" s3cret\r\n")
    async with hooked() as server:
        options = NotifyOptions(f"{server.url}/x", secret=read_secret(file))
        async with notifying(options, print, lambda _: None) as notify:
            notify(FOUND)
    (body,), (headers,) = server.bodies, server.headers
    expected = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert headers["X-Counterpoise-Signature"] == f"sha256={expected}"


@on_jumping_loop
async def test_what_passes_is_tried_again_with_longer_pauses() -> None:
    sending = Sending(ScriptedSession(503, 429, None, 500), timeout_s=10.0)
    async with sending.running() as notify:
        notify(FOUND)
        await notify.sent()
    # After 1 s, 2 s, 4 s with an answer that took ten, and 8 s.
    assert [at for at, _ in sending.session.sent] == [0, 1, 3, 17, 25]
    assert sending.fates == {NoticeFate.SENT: 1}
    assert sending.log == []


@on_jumping_loop
async def test_an_error_that_names_the_address_is_said_without_the_secret_path() -> None:
    wrong = aiohttp.InvalidURL("http://hook/secret-path")
    sending = Sending(ScriptedSession(*[wrong] * 5))
    async with sending.running() as notify:
        notify(FOUND)
        await notify.sent()
    assert sending.log == [
        "an operator could not be notified: http://hook does not take notices: "
        "http://hook is no address"
    ]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, None])
@on_jumping_loop
async def test_what_does_not_pass_is_given_up_after_five_tries(status: int | None) -> None:
    sending = Sending(ScriptedSession(*[status] * 5), timeout_s=1.0)
    async with sending.running() as notify:
        notify(FOUND)
        await notify.sent()
        assert len(sending.session.sent) == 5
        assert sending.fates == {NoticeFate.FAILED: 1}
        notify(FOUND)
        await notify.sent()
    assert sending.fates == {NoticeFate.FAILED: 1, NoticeFate.SENT: 1}


@on_jumping_loop
async def test_a_refusal_that_comes_again_after_a_success_is_said_again() -> None:
    sending = Sending(ScriptedSession(302, 200, 302))
    async with sending.running() as notify:
        for _ in range(3):
            notify(FOUND)
        await notify.sent()
    assert sending.fates == {NoticeFate.FAILED: 2, NoticeFate.SENT: 1}
    assert [each.split(":")[0] for each in sending.log] == [
        "an operator could not be notified",
        "http",
        "an operator could not be notified",
    ]


@on_jumping_loop
async def test_a_quiet_hour_saves_up_no_more_than_the_first_notices() -> None:
    """And a flood that is over leaves nothing to say of itself to the notices after it."""
    sending = Sending(ScriptedSession(), at_once=2, every_s=10.0, kept=3)
    async with sending.running() as notify:
        await pass_time(3600)
        began = now_ns() // SECOND_NS
        for number in range(4):
            notify(replace(FOUND, sentence=f"{number}"))
        await notify.sent()
        notify(replace(FOUND, sentence="4"))
        await notify.sent()
    assert [at - began for at, _ in sending.session.sent] == [0, 0, 10, 20]
    assert [body["sentence"] for _, body in sending.session.sent] == [
        "1 (1 notice before it was too many)", "2", "3", "4",
    ]  # fmt: skip


def test_the_address_for_a_log_has_neither_a_password_nor_a_path() -> None:
    options = NotifyOptions("https://user:pass@hook:8443/T0/secret?token=x")
    assert options.address == "https://hook:8443"


@pytest.mark.parametrize(
    ("url", "shape", "expected"),
    [
        ("http://am:9093", NotifyFormat.ALERTMANAGER, "http://am:9093/api/v2/alerts"),
        ("http://am:9093/", NotifyFormat.ALERTMANAGER, "http://am:9093/api/v2/alerts"),
        ("http://am/prefix/x", NotifyFormat.ALERTMANAGER, "http://am/prefix/x"),
        ("http://hook/", NotifyFormat.SLACK, "http://hook/"),
    ],
)
def test_an_alertmanagers_path_is_its_own_where_none_is_given(
    url: str, shape: NotifyFormat, expected: str
) -> None:
    assert expect_url(url, shape) == expected


@on_jumping_loop
async def test_a_refusal_is_not_tried_again_and_said_once_without_the_secret_path() -> None:
    sending = Sending(ScriptedSession(400, 400, 200))
    async with sending.running() as notify:
        for _ in range(3):
            notify(FOUND)
        await notify.sent()
    assert len(sending.session.sent) == 3
    assert sending.fates == {NoticeFate.FAILED: 2, NoticeFate.SENT: 1}
    assert sending.log == [
        "an operator could not be notified: http://hook does not take notices: "
        "HTTP 400 it says why",
        "http://hook takes notices again",
    ]


@on_jumping_loop
async def test_a_flood_goes_out_slowly_and_the_oldest_are_dropped() -> None:
    sending = Sending(ScriptedSession(), at_once=3, every_s=10.0, kept=5)
    for number in range(20):
        sending.notifier(
            Notice(NoticeKind.ROUND, NoticeSeverity.INFO, "r", f"round {number}", AT_MS)
        )
    async with sending.running() as notify:
        await notify.sent()
    assert [at for at, _ in sending.session.sent] == [0, 0, 0, 10, 20]
    sentences = [body["sentence"] for _, body in sending.session.sent]
    assert sentences[0] == "round 15 (15 notices before it were too many)"
    assert sentences[1:] == [f"round {number}" for number in range(16, 20)]
    assert sending.fates == {NoticeFate.DROPPED: 15, NoticeFate.SENT: 5}


@on_jumping_loop
async def test_a_webhook_that_hangs_takes_no_time_of_the_notifying() -> None:
    sending = Sending(ScriptedSession(*[None] * 100), timeout_s=1000.0)
    async with sending.running() as notify:
        notify(FOUND)
        await pass_time(1)
        began = now_ns()
        for _ in range(1000):
            notify(FOUND)
        assert now_ns() == began
    assert len(sending.session.sent) == 1


async def test_the_end_waits_for_a_webhook_no_longer_than_it_may() -> None:
    """One that never answers: this test would not end."""
    release = asyncio.Event()

    async def never(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = NotifyOptions(f"http://127.0.0.1:{port}", last_s=0.05, timeout_s=1e6)
    async with notifying(options, print, lambda _: None) as notify:
        notify(FOUND)
    release.set()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    ("shape", "path"), [("json", "/hook"), ("slack", "/hook"), ("alertmanager", "/api/v2/alerts")]
)
async def test_notify_test_says_that_a_notice_was_taken(
    shape: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with hooked() as server:
        url = server.url if shape == "alertmanager" else f"{server.url}/hook"
        words = ["notify", "test", "--notify", url, "--notify-format", shape]
        assert await asyncio.to_thread(main, words) == 0
    assert server.paths == [path]
    assert "has taken a notice" in capsys.readouterr().out


@pytest.mark.parametrize("status", [300, 307])
async def test_a_signed_notice_follows_no_redirect(status: int) -> None:
    async with hooked(status) as server:
        words = ["notify", "test", "--notify", f"{server.url}/hook"]
        assert await asyncio.to_thread(main, words) == 2
    assert server.paths == ["/hook"]


async def test_notify_test_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with hooked(403) as server:
        words = ["notify", "test", "--notify", f"{server.url}/T0/secret"]
        assert await asyncio.to_thread(main, words) == 2
    said = capsys.readouterr().err
    assert "does not take notices: HTTP 403 no thanks" in said
    assert "secret" not in said
    (tmp_path / "empty").touch()
    for more, sentence in (
        (["--notify", "hook"], "expected http://"),
        (["--notify", "http://[::1/"], "expected http://… or https://… (Invalid IPv6 URL)"),
        (["--notify", "http://h:99999"], "http://h:99999 is no address"),
        (["--notify", "http://h", "--notify-secret-file", str(tmp_path / "no")], "cannot be read"),
        (["--notify", "http://h", "--notify-secret-file", str(tmp_path / "empty")], "is empty"),
    ):
        assert await asyncio.to_thread(main, ["notify", "test", *more]) == 2
        assert sentence in capsys.readouterr().err
