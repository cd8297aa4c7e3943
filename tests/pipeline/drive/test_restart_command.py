"""The operator's command that restarts a broker: its words, its failure, and its end."""

import shlex
import sys
from pathlib import Path

import pytest

from counterpoise.pipeline.drive.restart_command import RestartCommand, RestartFailedError
from tests.waiting import until


def has_ended(pid: int) -> bool:
    """Whether a process has ended, waited for by its parent or not."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


SCRIPT = """
import os, sys
words = (os.environ["COUNTERPOISE_HOST"], os.environ["KUBECONFIG"], sys.argv[2])
open(sys.argv[1], "w").write(" ".join(words))
if sys.argv[3:]:
    print("first line", file=sys.stderr)
    sys.exit("no such unit")
"""


async def test_a_command_is_run_without_a_shell_and_its_failure_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/etc/k")
    script, out = tmp_path / "restart.py", tmp_path / "out"
    script.write_text(SCRIPT)
    line = f"{shlex.quote(sys.executable)} {script} {out} '{{broker}};$HOME'"
    await RestartCommand.parse(line, 100.0).restart("b-1:8080")
    assert out.read_text() == "b-1 /etc/k b-1:8080;$HOME"
    with pytest.raises(RestartFailedError, match="failed with status 1: no such unit"):
        await RestartCommand.parse(f"{line} fail", 100.0).restart("b-1:8080")
    to_host = f"{shlex.quote(sys.executable)} {script} {out} {{host}}"
    await RestartCommand.parse(to_host, 100.0).restart("[fe80::1]:8080")
    assert out.read_text() == "[fe80::1] /etc/k [fe80::1]"
    with pytest.raises(ValueError, match="the command is empty"):
        RestartCommand.parse(" ", 100.0)
    with pytest.raises(RestartFailedError, match="failed with status -9: no message"):
        await RestartCommand.parse("sh -c 'kill -9 $$'", 100.0).restart("b-1:8080")
    with pytest.raises(RestartFailedError, match="cannot be run"):
        await RestartCommand.parse("/nowhere/restart", 100.0).restart("b-1:8080")


async def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """Although it takes no request to end."""
    pids = tmp_path / "pids"
    pids.touch()
    line = f"sh -c 'trap \"\" TERM; sleep 600 & echo $! > {pids}; wait'"
    for seconds in (1, 10, 100):
        with pytest.raises(RestartFailedError, match=f"had not ended after {seconds} s"):
            await RestartCommand.parse(line, float(seconds)).restart("b-1:8080")
        # On a busy machine it may not have come so far in a second.
        if pids.read_text():
            break
    await until(lambda: has_ended(int(pids.read_text())))
