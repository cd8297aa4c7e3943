"""The systemd units: what they start is a line that the command line takes."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from counterpoise.app.arguments.rules import refuse_idle
from counterpoise.app.main import full_parser

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
NAMES = ("balance", "watch")


def settings_of(name: str) -> dict[str, str]:
    """What is set in the file of a unit's settings, by variable."""
    lines = (UNITS / f"{name}.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def service_of(name: str) -> configparser.SectionProxy:
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string((UNITS / f"counterpoise-{name}.service").read_text())
    return parsed["Service"]


def words_of(name: str, options: str) -> list[str]:
    """The words that systemd starts: ${X} is one word, $X as many as it has."""
    settings = {**settings_of(name), "OPTIONS": options}
    words = []
    for word in shlex.split(service_of(name)["ExecStart"]):
        if word.startswith("${"):
            words.append(settings[word[2:-1]])
        elif word.startswith("$"):
            words += settings[word[1:]].split()
        else:
            words.append(word)
    return words


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_starts_its_verb_with_options_that_it_has(name: str) -> None:
    text = (UNITS / f"{name}.env").read_text()
    given = [line.split("OPTIONS=", 1)[1] for line in text.splitlines() if "OPTIONS=" in line]
    assert given
    for options in given:
        program, *words = words_of(name, options)
        assert program == "/opt/counterpoise/bin/counterpoise"
        parsed = full_parser().parse_args(words)
        assert (parsed.verb, parsed.watchdog) == (name, True)
        if name == "balance" and not parsed.execute:
            refuse_idle(parsed, parsed.idle_in_dry_run, "a dry run has no use for it")
        assert parsed.metrics == "127.0.0.1:9109"
        assert parsed.history.startswith("/var/lib/counterpoise/"), "its StateDirectory"


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_reads_the_settings_that_are_beside_it_and_is_started_again(name: str) -> None:
    service = service_of(name)
    assert service["EnvironmentFile"] == f"/etc/counterpoise/{name}.env"
    assert service["Restart"] == "on-failure"
    assert service["StateDirectory"] == "counterpoise"


def test_the_settings_as_they_are_move_nothing() -> None:
    parsed = full_parser().parse_args(words_of("balance", settings_of("balance")["OPTIONS"])[1:])
    assert not parsed.execute


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on the PATH")
@pytest.mark.parametrize("name", NAMES)
def test_systemd_takes_a_unit(name: str, tmp_path: Path) -> None:
    unit = (UNITS / f"counterpoise-{name}.service").read_text()
    # What it starts need not be installed here.
    copy = tmp_path / f"counterpoise-{name}.service"
    copy.write_text(unit.replace("/opt/counterpoise/bin/counterpoise", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(copy.name) not in done.stderr, done.stderr
