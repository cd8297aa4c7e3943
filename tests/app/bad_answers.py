"""Servers that answer something else than a broker does."""

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from counterpoise.app.clusters.reserved_port import ReservedPort

NOISE: Final = bytes(range(256)) * 4
ESCAPES: Final = "\x1b[31m\x07\rFORGED\nFORGED\u202e"


def http(status: int, body: bytes, kind: str = "application/json", short: int = 0) -> bytes:
    """An HTTP response; with ``short``, so many bytes are announced and never come."""
    head = (
        f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body) + short}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


ANSWERS: Final[Mapping[str, bytes | None]] = {
    "nobody": None,
    "401": http(401, b"no"),
    "403": http(403, b'{"reason": "\\u001b[31m\\n no"}'),
    "404": http(404, b""),
    "html": http(200, b"<html><body>please log in</body></html>", "text/html"),
    "cut": http(200, b'["127.0.0.1:80"'),
    "broken off": http(200, b'["127.0.0.1:80"', short=9),
    "empty": http(200, b""),
    "another shape": http(200, b'{"a": [1, null]}'),
    "noise": http(200, NOISE),
    "no http": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "silence": b"",
}
"""By what is wrong: what comes, whatever is asked; None where nobody listens."""


HANGS: Final[Mapping[str, tuple[bytes, float]]] = {
    "never answers": (b"", 0.0),
    "a byte a second": (http(200, b'["127.0.0.1:80"]'), 1.0),
    "half a body": (http(200, b'["127.0.0.1:80"', short=9), 0.0),
}
"""By what is wrong: what comes, byte by byte, seconds apart; then nothing, and no end."""


class Answer(Protocol):
    """What a server sends."""

    def __call__(self, path: str, server: socketserver.TCPServer) -> bytes:
        """To a request for this path."""


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, answer: Answer, every_s: float | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.answer = answer
        self.every_s = every_s
        self.over = threading.Event()


class _Request(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        asked = b""
        hangs = self.server.every_s is not None
        # What is no HTTP, such as ZooKeeper's protocol, is not answered any better.
        while b"\r\n\r\n" not in asked and not (hangs and asked):
            more = self.request.recv(65536)
            if not more:
                return
            asked += more
        answer, every_s = self.server.answer(path_of(asked), self.server), self.server.every_s
        if not every_s:
            self.request.sendall(answer)
        if every_s is not None:
            for byte in answer if every_s else b"":
                with contextlib.suppress(OSError):
                    self.request.sendall(bytes([byte]))
                if self.server.over.wait(every_s):
                    return
            self.server.over.wait()


def path_of(request: bytes) -> str:
    return request.split()[1].decode() if request.startswith((b"GET", b"POST", b"PUT")) else ""


def hanging(answer: bytes, every_s: float) -> AbstractContextManager[str]:
    """The URL of a server that answers so, as `HANGS` has it, and never ends."""
    return _serving(lambda path, server: answer, listens=True, every_s=every_s)


def answering(answer: bytes | None) -> AbstractContextManager[str]:
    """The URL of a server that answers so; None: where nobody listens."""
    return _serving(lambda path, server: answer or b"", listens=answer is not None)


def answering_by_path(
    answers: Callable[[str], Mapping[str, object]],
) -> AbstractContextManager[str]:
    """The URL of a server that answers in JSON, given its `host:port`; 404 to other paths."""

    def answer(path: str, server: socketserver.TCPServer) -> bytes:
        known = answers(f"127.0.0.1:{server.server_address[1]}")
        if path not in known:
            return http(404, b"{}")
        return http(200, json.dumps(known[path]).encode())

    return _serving(answer, listens=True)


@contextmanager
def _serving(answer: Answer, *, listens: bool, every_s: float | None = None) -> Iterator[str]:
    if not listens:
        port = ReservedPort()
        try:
            yield f"http://127.0.0.1:{port.number}"
        finally:
            port.release()
        return
    with _Server(answer, every_s) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield url
        finally:
            server.over.set()
            server.shutdown()
