"""The command line's frame: verbs, exit statuses, sentences instead of tracebacks."""

import argparse
import subprocess
import sys
import types

import pytest

from counterpoise.app import main as frame
from counterpoise.app.errors import UserError
from counterpoise.names.errors import InvalidName


def run_verb(monkeypatch: pytest.MonkeyPatch, run: object) -> int:
    """What ``main`` makes of a verb with this ``run``."""
    arguments = types.ModuleType("counterpoise.app.arguments.pretend")
    vars(arguments).update(DESCRIPTION="", EPILOG="", add_arguments=lambda parser: None)
    module = types.ModuleType("counterpoise.app.verbs.pretend")
    vars(module).update(run=run)
    for each in (arguments, module):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    monkeypatch.setattr(frame, "VERBS", (frame.Verb("pretend", "a verb"),))
    return frame.main(["pretend"])


def raising(error: BaseException) -> object:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


def test_gives_the_status_of_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_verb(monkeypatch, lambda _: 7) == 7


@pytest.mark.parametrize(
    "error", [UserError("the port 1 is taken: choose another."), InvalidName("x/", "no topic")]
)
def test_what_the_person_can_put_right_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    assert run_verb(monkeypatch, raising(error)) == 2
    assert capsys.readouterr().err == f"counterpoise: {error}\n"


def test_a_failure_of_ours_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb(monkeypatch, raising(ZeroDivisionError("oh"))) == 1
    printed = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in printed
    assert "--traceback" in printed
    assert "File" not in printed


def test_ctrl_c_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb(monkeypatch, raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_without_a_verb_it_shows_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main([]) == 2
    shown = capsys.readouterr().out
    for verb in frame.VERBS:
        assert verb.name in shown
        assert verb.summary in shown


@pytest.mark.parametrize("words", [["--help"], ["--help", "doctor"], ["doctr"]])
def test_who_asks_which_verbs_there_are_is_shown_them_all(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        frame.main(words)
    captured = capsys.readouterr()
    for verb in frame.VERBS:
        assert verb.name in captured.out + captured.err


def test_help_imports_no_verb_and_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from counterpoise.app.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'numpy', 'pandas', 'aiohttp', 'pulsar', 'kazoo'} & set(sys.modules)\n"
        "ours = ('counterpoise.app.verbs.', 'counterpoise.app.arguments.')\n"
        "verbs = [m for m in sys.modules if m.startswith(ours)]\n"
        "sys.exit(repr((heavy, verbs)) if heavy or verbs else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["watch", "--admin-url", "http://b:1", "--history", "h", "--intervall", "5s"],
            "unrecognized arguments: --intervall 5s; did you mean --interval?",
        ),
        (["history", "check", "h", "--nothing-like-it"], "arguments: --nothing-like-it\n"),
    ],
)
def test_an_unknown_option_is_answered_with_the_verbs_own_usage(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        frame.main(words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"usage: counterpoise {words[0]} ")
    assert said in error


@pytest.mark.parametrize("verb", ["decide", "history", "notify", "storage"])
def test_a_verb_that_does_several_things_asks_which(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        frame.main([verb])
    assert ended.value.code == 2
    assert "arguments are required: WHAT" in capsys.readouterr().err
