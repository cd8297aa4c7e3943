"""How a console ends, and what it says before it has looked at any cluster."""

import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.console.conftest import StartConsole, console_spec
from tests.waiting import answer_within

AWAY = "http://127.0.0.1:1"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("fleet", [False, True], ids=["one", "fleet"])
def test_a_signal_ends_a_console_in_order(
    number: signal.Signals, fleet: bool, tmp_path: Path
) -> None:
    words = ["--admin-url", AWAY]
    if fleet:
        (tmp_path / "fleet.toml").write_text(f'[[cluster]]\nname = "a"\nadmin-url = "{AWAY}"\n')
        words = ["--fleet", str(tmp_path / "fleet.toml")]
    argv = console_spec(tmp_path, *words).argv
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("{")
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")


def health(url: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}health", timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_a_fleet_is_not_healthy_before_every_cluster_was_looked_at_once(
    start_console: StartConsole, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        admin_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        (tmp_path / "fleet.toml").write_text(
            f'[[cluster]]\nname = "a"\nadmin-url = "{admin_url}"\n'
        )
        url = start_console("--fleet", str(tmp_path / "fleet.toml"), "--within", "60s")
        assert health(url) == 503
    assert answer_within(lambda: health(url) == 200, 60)
