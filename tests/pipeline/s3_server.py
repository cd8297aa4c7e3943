"""An S3 that many processes share: moto's, in a thread of its own, with faults of our choosing.

`refuse` makes writes of names that contain it fail, as a bucket's policy would; `before` is told of
each write that arrives and may hold it up (after 3 s the client sends it again, and again for more
than a minute, and each is told); `heard` of each that was done, before its writer is.
"""

import io
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

NAME = "bucket"
_ONE_AT_A_TIME = threading.Lock()
"""For writes on a condition, which moto looks at before it writes."""
_DENIED = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
_INCOMPLETE = b"<Error><Code>IncompleteBody</Code><Message>cut short</Message></Error>"


@dataclass
class Bucket:
    """What is in it, and what may not be written."""

    refuse: str = ""
    ignores_conditions: bool = False
    """Replaces an object that is to be written only where there is none."""
    away: bool = False
    """Answers whatever it is asked as a service does that is not there just now."""
    writes: list[str] = field(default_factory=list)
    """The names of all that was written, in order."""
    heard: Callable[[str], None] | None = None
    """Told each name that was written, before its writer is."""
    before: Callable[[str], None] | None = None
    """Told each name that is to be written; it is, once this returns."""
    port: int = 0

    def uri(self, path: str) -> str:
        """A history's URI, with all that a process of another environment has to know."""
        return (
            f"s3://key:secret@{NAME}/{path}?endpoint_override=127.0.0.1:{self.port}"
            "&scheme=http&region=us-east-1&allow_bucket_creation=false"
        )

    @property
    def objects(self) -> list[str]:
        """The names of all objects."""
        return list(_moto().buckets[NAME].keys)

    def read(self, name: str) -> bytes:
        """An object's bytes."""
        return bytes(_moto().buckets[NAME].keys[name].value)

    def write(self, name: str, data: bytes) -> None:
        """Replace an object, whoever wrote it."""
        _moto().put_object(NAME, name, data)

    def serve(self, inner: Any, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """One request of somebody's."""
        if self.away:
            start("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"not just now"]
        name = unquote(environ["PATH_INFO"]).removeprefix(f"/{NAME}/")
        writes = environ["REQUEST_METHOD"] in ("PUT", "POST")
        if writes and self.refuse and self.refuse in name:
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [_DENIED]
        if writes and self.before is not None:
            self.before(name)
        query = environ.get("QUERY_STRING", "")
        body = _body(environ)
        if body is None:
            start("400 Bad Request", [("Content-Type", "application/xml")])
            return [_INCOMPLETE]
        environ["wsgi.input"] = io.BytesIO(body)
        if self.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        # Moto checks a condition before it writes, and lists what it deletes meanwhile.
        with _ONE_AT_A_TIME:
            answer: Iterable[bytes] = inner(environ, start)
        whole = "uploadId=" in query if environ["REQUEST_METHOD"] == "POST" else not query
        if writes and whole:
            self.writes.append(name)
            if self.heard is not None:
                self.heard(name)
        return answer


def _body(environ: dict[str, Any]) -> bytes | None:
    """A request's body, None when its client left in the middle.

    It is read before the lock is taken: a client that stands still must not hold up the others.
    """
    if environ.get("wsgi.input_terminated"):
        return bytes(environ["wsgi.input"].read())
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = bytes(environ["wsgi.input"].read(length))
    return body if len(body) == length else None


def own_path(test: str) -> str:
    """A path for each case of a test: what one leaves behind, as a claim, would stop the next."""
    return re.sub(r"\W+", "-", test)


def _moto() -> Any:
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


@contextmanager
def bucket() -> Iterator[Bucket]:
    """The endpoint, as long as the block runs."""
    made = Bucket()
    moto = DomainDispatcherApplication(create_backend_app)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    _moto().create_bucket(NAME, "us-east-1")
    server = make_server(
        "127.0.0.1", 0, lambda environ, start: made.serve(moto, environ, start), threaded=True
    )
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
        _moto().reset()
