"""A notice as the request body that a webhook expects: plain JSON, Slack's, Alertmanager's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import orjson

from counterpoise.pipeline.notify.notice import Notice, NoticeKind

VERSION: Final = 1
"""The version of the plain JSON format."""
ALERTS_PATH: Final = "/api/v2/alerts"
_MARKS: Final = {"info": "🟢", "warning": "🟠", "critical": "🔴"}
_FIRES_FOR: Final[Mapping[NoticeKind, timedelta]] = {
    NoticeKind.FINDING: timedelta(days=7),
    NoticeKind.STOP: timedelta(days=7),
}
"""By kind of notice: how long Alertmanager lets its alert fire if no notice of its end comes."""
_FIRES_ELSE: Final = timedelta(minutes=15)


class NotifyFormat(StrEnum):
    """The format of the request that a webhook gets."""

    JSON = "json"
    SLACK = "slack"
    ALERTMANAGER = "alertmanager"


@dataclass(frozen=True, slots=True)
class NoticeContext:
    """The cluster's name and a link, which are added to every notice."""

    cluster: str = ""
    """The cluster, or history, that the notice is about."""
    link: str = ""
    """The address of a console or dashboard to look at."""


def body_of(notice: Notice, shape: NotifyFormat, context: NoticeContext) -> bytes:
    """A notice as an HTTP body; characters that cannot be encoded become question marks."""
    plain = (text.encode(errors="replace").decode() for text in (notice.subject, notice.sentence))
    subject, sentence = plain
    notice = replace(notice, subject=subject, sentence=sentence)
    match shape:
        case NotifyFormat.SLACK:
            return orjson.dumps(_slack(notice, context))
        case NotifyFormat.ALERTMANAGER:
            return orjson.dumps([_alert(notice, context)])
        case NotifyFormat.JSON:
            return orjson.dumps(_plain(notice, context))


def _plain(notice: Notice, context: NoticeContext) -> dict[str, Any]:
    return {
        "version": VERSION,
        "kind": notice.kind.value,
        "severity": notice.severity.value,
        "subject": notice.subject,
        "sentence": notice.sentence,
        "at": _time(notice.at_ms),
        "over": notice.is_over,
        "cluster": context.cluster,
        "link": context.link,
    }


def _slack(notice: Notice, context: NoticeContext) -> dict[str, Any]:
    mark = "✅" if notice.is_over else _MARKS[notice.severity.value]
    link = f" <{_escaped(context.link)}|look>" if context.link else ""
    where = f" of {_escaped(context.cluster)}" if context.cluster else ""
    return {"text": f"{mark} *{notice.kind.value}*{where}: {_escaped(notice.sentence)}{link}"}


def _alert(notice: Notice, context: NoticeContext) -> dict[str, Any]:
    ends_ms = notice.at_ms
    if not notice.is_over:
        fires_for = _FIRES_FOR.get(notice.kind, _FIRES_ELSE)
        ends_ms += round(fires_for.total_seconds() * 1000)
    labels = {
        "alertname": f"Counterpoise{notice.kind.value.capitalize()}",
        "kind": notice.kind.value,
        "subject": notice.subject,
        "cluster": context.cluster,
        # The notice of the end has the same labels: by these Alertmanager resolves the alert.
        "job": "counterpoise",
    }
    alert: dict[str, Any] = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": notice.sentence, "severity": notice.severity.value},
        "endsAt": _time(ends_ms),
    }
    if not notice.is_over:
        alert["startsAt"] = _time(notice.at_ms)
    if context.link:
        alert["generatorURL"] = context.link
    return alert


def _escaped(text: str) -> str:
    """Text escaped for Slack's markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
