"""``counterpoise broker`` as a process."""

import signal
import socket
import subprocess
import sys


def test_who_gives_up_waiting_for_a_silent_store_is_heard() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = f"metadataStoreUrl=zk:127.0.0.1:{silent.getsockname()[1]}"
        settings = (store, "brokerServicePort=0", "webServicePort=0")
        options = [part for setting in settings for part in ("--set", setting)]
        with subprocess.Popen(
            [sys.executable, "-m", "counterpoise", "broker", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as broker:
            try:
                silent.settimeout(100)
                came, _ = silent.accept()
                with came:
                    broker.send_signal(signal.SIGTERM)
                    said, _ = broker.communicate(timeout=100)
            finally:
                broker.kill()
    assert broker.returncode == 0, said
    assert "Traceback" not in said
