"""Every verb with every bad input that it can be given: a sentence, status 2, nothing half done.

What is tried is read off the parser: an argument that names something outside is of a kind, and
every verb that has it is given every bad one of that kind. An argument of no kind fails the first
test, so that neither a new verb nor a new option is forgotten.
"""

import argparse
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from counterpoise.app import progress
from counterpoise.app.main import full_parser, main
from counterpoise.app.verbs import history_import, notify, storage
from tests.app.bad_answers import (
    ANSWERS,
    ESCAPES,
    HANGS,
    NOISE,
    answering,
    answering_by_path,
    hanging,
)

COMMANDING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@dataclass(frozen=True)
class Command:
    """A verb, or one of its sub-verbs, with the arguments that it takes."""

    words: tuple[str, ...]
    parser: argparse.ArgumentParser

    @property
    def arguments(self) -> list[argparse.Action]:
        """Those that take a value of one's own."""
        return [
            each
            for each in self.parser._actions
            if each.nargs != 0 and each.choices is None and each.dest != "help"
        ]

    def line(self, given: Mapping[str, str], good: Mapping[str, str]) -> list[str]:
        """A command line with these arguments, and with good ones where some are required."""
        values = {**EXTRA.get(str(self), {}), **given}
        grouped: set[str] = set()
        for group in self.parser._mutually_exclusive_groups:
            names = [each.dest for each in group._group_actions]
            grouped |= set(names)
            if group.required and not values.keys() & set(names):
                values[names[0]] = ""
        line = list(self.words)
        for each in self.parser._actions:
            required = each.required and each.dest not in grouped
            if (each.dest not in values and not required) or values.get(each.dest) == "no":
                continue
            value = values.get(each.dest) or good.get(each.dest, "")
            if each.choices is not None and not value:
                value = str(next(iter(each.choices)))
            option = each.option_strings[-1:]
            if each.nargs == 0:
                line += option
            elif option and each.nargs is None:
                line.append(f"{option[0]}={value}")
            else:
                line += [*option, value, *([value] if each.nargs == 2 else [])]
        return line

    def __str__(self) -> str:
        return " ".join(self.words)


def commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[Command]:
    """Every verb that there is, a sub-verb as one of its own."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for each in below:
        for name, sub in each.choices.items():
            yield from commands(sub, (*words, name))
    if not below:
        yield Command(words, parser)


COMMANDS: Final = {str(each): each for each in commands(full_parser())}
BUNDLE: Final = "a/b/0x00000000_0x40000000"
NOBODY: Final = "http://127.0.0.1:1"
GOOD: Final = {
    "admin_url": NOBODY, "target": BUNDLE, "broker": "127.0.0.1:1", "table": "reports",
    "metadata": "zk:127.0.0.1:1", "topic": "persistent://a/b/c", "notify": NOBODY, "ledger": "1",
    "prometheus": NOBODY, "strategies": "ThresholdShedder",
}  # fmt: skip
"""What is given where a verb needs it."""
_METRICS: Final = {"prometheus": NOBODY, "first": "-1h"}
EXTRA: Final[Mapping[str, Mapping[str, str]]] = {
    "watch": {"once": ""}, "balance": {"once": ""}, "top": {"once": ""}, "roll": {"command": "x"},
    "history import": {"first": "-1h", "default_bundles": "4"}, "watchdog": {"patience": "0s"},
}  # fmt: skip
NEEDS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("history import", "prometheus_user_file"): _METRICS,
    ("history import", "prometheus_token_file"): _METRICS,
    ("history import", "prometheus_ca"): {**_METRICS, "prometheus": "https://127.0.0.1:1"},
    ("history import", "prometheus_cert"): {**_METRICS, "prometheus_key": "bad-file"},
    ("history import", "prometheus_key"): {**_METRICS, "prometheus_cert": "bad-file"},
    ("history import", "tls_trust_cert_path"): {**_METRICS, "admin_url": "https://127.0.0.1:1"},
    ("history import", "bundles"): _METRICS,
    **{
        ("console", dest): {"admin_url": "https://127.0.0.1:1"}
        for dest in ("token_file", "conf", "tls_trust_cert_path", "backtests")
    },
    ("advise", "conf"): {"admin_url": NOBODY},
    ("advise", "tls_trust_cert_path"): {"admin_url": "https://127.0.0.1:1"},
    ("backtest", "conf"): {"source": "synthetic:constant,hours=1"},
    ("balance", "plan"): {"once": "no"},
}
"""What goes with an argument."""

OUTSIDE: Final = {"URL", "FILE", "DIR", "URI", "HISTORY"}
NAMES: Final = {"BROKER", "BUNDLE|TOPIC|NAMESPACE", "BUNDLE|TOPIC", "NAMESPACE", "TOPIC", "TABLE"}
OURS: Final = {
    # Figures and times, which argparse reads; texts and settings of our own.
    "N", "S", "X", "SECONDS", "TIME", "PERCENT", "DAYS", "MIB", "PORT", "[HOST:]PORT", "HASH",
    "+N", "xF", "ID", "LEDGER:ENTRY", "HH:MM-HH:MM", "BROKER=F", "TENANT/NS=N", "NAME=V1,V2",
    "NAME=VALUE", "NAME", "TEXT", "CLASS", "OPTION", "VERSION", "LABEL", "LABELS", "ENGINE",
    "A,B/C", "JSON", "NAMESPACES", "VALUE=HOST:PORT", "PATH", "HOST", "SEED", ("NOW", "THEN"),
}  # fmt: skip
BESIDE: Final = {
    ("console", "admin_url"): "its page says what is wrong, and when it is over",
    ("console", "history"): "the same",
    **{
        (verb, dest): "work goes on without it"
        for verb in ("watch", "watchdog", "balance")
        for dest in ("notify", "notify_link")
    },
    ("watchdog", "service_url"): "the same",
    ("notify test", "notify_link"): "it is not asked",
    ("replay", "url"): "the clients' own errors are what is compared",
    (
        "history import",
        "admin_url",
    ): "it is asked once there are metrics: tests/pipeline/prometheus",
    **{(verb, "master"): "Spark says so" for verb in ("balance", "backtest", "rollup")},
}
"""Why a bad one is no error."""
SERVE: Final = {"up", "broker", "demo", "console"}
"""What serves until it is stopped: what is wrong with its settings ends it, the rest is shown."""
ONE_WRITTEN: Final = {"picture", "record", "save", "html", "plot", "out", "parquet"}
"""The files that are written."""


def cases(*metavars: str, written: bool = False) -> list[tuple[str, str]]:
    """The verbs with an argument of these kinds, and which it is."""
    return [
        (str(command), each.dest)
        for command in COMMANDS.values()
        for each in command.arguments
        if (each.metavar or each.dest.upper()) in metavars
        if (str(command), each.dest) not in BESIDE
        if (each.dest in ONE_WRITTEN) == written
        if each.dest == "conf" or command.words[0] not in SERVE
    ]


def some(
    of: Sequence[tuple[str, str]], bad: Sequence[str], at_once: int
) -> list[tuple[str, str, str]]:
    """Each case with so many of what is bad, in turn: all with all take minutes and find no more,
    since verbs share the code that reads an argument.
    """
    return [
        (verb, dest, bad[(number + more) % len(bad)])
        for number, (verb, dest) in enumerate(of)
        for more in range(at_once)
    ]


def left(below: Path) -> dict[str, bytes]:
    """What is in a directory."""
    return {
        str(each.relative_to(below)): each.read_bytes() if each.is_file() else b""
        for each in below.rglob("*")
    }


@dataclass
class Ended:
    """What came of a verb."""

    status: int
    out: str
    err: str


def ran(line: list[str], capsys: pytest.CaptureFixture[str]) -> Ended:
    try:
        status = main(line)
    except SystemExit as end:
        status = int(str(end.code))
    return Ended(status, *capsys.readouterr())


def refuses(ended: Ended, named: str = "") -> None:
    """One sentence that says what is wrong, and no more."""
    assert ended.status == 2, ended
    *_, sentence = ended.err.splitlines() or [""]
    assert sentence.startswith("counterpoise"), ended
    assert "internal error" not in ended.err, ended
    assert "Traceback" not in ended.err, ended
    assert not COMMANDING.search(ended.out + ended.err), ended
    assert named in ended.err or "127.0.0.1:1" in ended.err, ended


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with nothing in it."""
    at = tmp_path / "here"
    at.mkdir()
    monkeypatch.chdir(at)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(storage, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(history_import, "FIRST_PAUSE_S", 0.01)
    return at


def line_of(verb: str, dest: str, value: str, place: Path) -> list[str]:
    """A command line in which this alone is wrong, besides that no cluster is there."""
    good = {**GOOD, **dict.fromkeys(("history", "to", "source"), str(place / "new"))}
    good |= {each: f"{each}.csv" for each in ONE_WRITTEN} | {"file": "file", "directory": "."}
    given = {**NEEDS.get((verb, dest), {}), dest: value}
    return COMMANDS[verb].line(given, good)


def test_every_argument_is_of_a_kind_so_that_none_is_forgotten() -> None:
    for command in COMMANDS.values():
        for each in command.arguments:
            kind = each.metavar or each.dest.upper()
            assert kind in OUTSIDE | NAMES | OURS, f"{command} {each.dest}: say what it names"


@pytest.mark.parametrize("name", [ESCAPES, "../../etc", "x" * 10_000], ids=["a", "b", "c"])
@pytest.mark.parametrize(("verb", "dest"), cases(*NAMES))
def test_names_that_are_none(
    verb: str, dest: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = ran(line_of(verb, dest, name, place), capsys)
    refuses(ended)
    assert len(ended.err) < 3000, "it quotes the beginning alone"
    assert left(place) == {}


@pytest.mark.parametrize(("verb", "dest", "answer"), some(cases("URL"), [*ANSWERS], 4))
def test_what_is_no_server_of_ours(
    verb: str, dest: str, answer: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if dest == "notify" and (ANSWERS[answer] or b"").startswith(b"HTTP/1.1 200"):
        return  # whatever a webhook says, it has taken the notice
    with answering(ANSWERS[answer]) as url:
        given = f"zk:{url[7:]}" if dest == "metadata" else url
        ended = ran(line_of(verb, dest, given, place), capsys)
    refuses(ended, url.removeprefix("http://"))
    assert left(place) == {}


@pytest.mark.parametrize(("verb", "dest", "how"), some(cases("URL"), [*HANGS], 2))
def test_what_accepts_and_does_not_answer(
    verb: str,
    dest: str,
    how: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each ends by itself, within the time that it gives an answer, and says what it waits for."""
    if (dest, how) == ("notify", "half a body"):
        return  # its first line has taken the notice
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    monkeypatch.setattr(notify, "ANSWER_WITHIN_S", 0.2)
    with hanging(*HANGS[how]) as url:
        given = f"zk:{url[7:]}" if dest == "metadata" else url
        ended = ran([*line_of(verb, dest, given, place), *_within(verb)], capsys)
    refuses(ended, url.removeprefix("http://"))
    assert left(place) == {}
    assert " so far\n" in ended.err or verb in LOGGING, ended


LOGGING: Final = {"watch", "balance"}
"""They log from their first line on what they do."""


def _within(verb: str) -> list[str]:
    """The verb's time-outs, short ones."""
    options = {each.option_strings[-1] for each in COMMANDS[verb].arguments if each.option_strings}
    return [f"{each}=0.2s" for each in ("--timeout", "--prometheus-timeout") if each in options]


_CONF: Final = {
    (verb, dest, bad)
    for verb, dest in cases("FILE")
    for bad in ("empty", "cut")
    if dest == "conf" or verb == "doctor"
}
SOUND: Final = _CONF | {
    (verb, dest, bad)
    for verb, dest in cases("FILE")
    for bad in ("empty", "cut", "noise")
    if dest in ("notify_secret_file", "prometheus_token_file")
}
"""Which are no bad input: whatever has lines may be a broker.conf, and any bytes a secret."""
FILES: Final = [
    each
    for each in some(cases("FILE"), ("missing", "empty", "directory", "cut", "noise"), 2)
    if each not in SOUND
]


@pytest.mark.parametrize(("verb", "dest", "bad"), FILES)
def test_what_is_no_file_of_ours(
    verb: str, dest: str, bad: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / "bad-file"
    if bad == "directory":
        file.mkdir()
    elif bad != "missing":
        file.write_bytes({"empty": b"", "cut": b'{"steps": [', "noise": NOISE}[bad])
    before = left(place)
    ended = ran(line_of(verb, dest, str(file), place), capsys)
    refuses(ended, "bad-file")
    assert left(place) == before


@pytest.mark.parametrize(
    ("verb", "dest", "bad"),
    some(cases("FILE", written=True), ("directory", "nowhere", "below-a-file"), 2),
)
def test_what_cannot_be_written(
    verb: str, dest: str, bad: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / "bad-file.csv"
    if bad == "directory":
        file.mkdir()
    elif bad == "nowhere":
        file = place / "nowhere" / "bad-file.csv"
    else:
        file.write_bytes(b"")
        file = file / "bad-file.csv"
    before = left(place)
    ended = ran(line_of(verb, dest, str(file), place), capsys)
    refuses(ended)
    assert left(place) == before


@pytest.mark.parametrize("bad", ["missing", "empty", "a file", "a stranger's", "damaged"])
@pytest.mark.parametrize(("verb", "dest"), cases("URI", "HISTORY", "DIR"))
def test_what_is_no_history(
    verb: str, dest: str, bad: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = place / "bad-place"
    if bad == "a file":
        at.write_bytes(NOISE)
    elif bad != "missing":
        at.mkdir()
    if bad == "a stranger's":
        (at / "notes.txt").write_bytes(NOISE)
    if bad == "damaged":
        (log := at / "reports" / "_delta_log").mkdir(parents=True)
        (log / f"{0:020d}.json").write_bytes(b'{"commitInfo": {"times')
    before = left(place)
    ended = ran(line_of(verb, dest, str(at), place), capsys)
    if bad == "damaged" and verb in DAMAGED:
        assert ended.status == DAMAGED[verb], ended
        return
    refuses(ended)
    # A writer takes a history over before it reads all of it.
    if bad != "damaged" or verb not in ("watch", "balance", "history vacuum"):
        assert left(place) == before


DAMAGED: Final = {"history check": 1, "history repair": 0, "control": 0}
"""What a damaged history is no bad input for."""
TOPIC: Final = f"persistent://a/b/{ESCAPES}"
_TOPICS: Final = {"msgRateIn": 1, "subscriptions": {ESCAPES: {"consumers": [{}]}}}
_LIMIT: Final = {
    "level": "topicRate", "subject": TOPIC, "messages": 1, "bytes": 0, "seconds": 1.0,
    "passed_messages": 1, "passed_bytes": 1,
    "producers": [{
        "name": ESCAPES, "address": ESCAPES, "topic": TOPIC, "held_entries": 1, "held_bytes": 1,
        "seconds": 1.0,
    }],
}  # fmt: skip


@pytest.mark.parametrize("verb", [verb for verb, dest in cases("URL") if dest == "admin_url"])
def test_names_of_a_cluster_command_no_terminal(
    verb: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers(at: str) -> dict[str, object]:
        return {
            "/admin/v2/brokers": [at],
            "/admin/v2/brokers/leaderBroker": {"brokerId": at},
            "/admin/v2/broker-stats/topics": {
                "a/b": {BUNDLE[4:]: {"persistent": {TOPIC: _TOPICS}}}
            },
            "/admin/v2/broker-stats/throttling": [_LIMIT],
            "/admin/v2/namespaces/a/b/bundles": {"boundaries": [ESCAPES]},
            "/admin/v2/broker-stats/load-report": {"lastStats": {ESCAPES: {}, BUNDLE: ESCAPES}},
            "/admin/v2/brokers/configuration/runtime": {ESCAPES: ESCAPES},
        }

    with answering_by_path(answers) as url:
        ended = ran(line_of(verb, "admin_url", url, place), capsys)
    shown = ended.out + ended.err
    assert not COMMANDING.search(shown), ended
    assert not re.search(r"^FORGED", shown, re.MULTILINE), ended
    assert "internal error" not in shown, ended
    assert verb not in ("topics", "top") or "FORGED" in shown, "it shows the name"
