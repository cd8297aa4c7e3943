"""An endpoint that speaks as much of S3 as `pyarrow.fs` asks for, in a thread of its own.

Objects are in memory; an object appears when it is complete, as S3's do. `refuse` makes writes of
names that contain it fail, as a bucket's policy would.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from aiohttp import web


@dataclass
class Bucket:
    """What is in it, and what may not be written."""

    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    refuse: str = ""
    port: int = 0

    def uri(self, path: str) -> str:
        return (
            f"s3://key:secret@bucket/{path}?endpoint_override=127.0.0.1:{self.port}"
            "&scheme=http&region=us-east-1&allow_bucket_creation=false"
        )

    async def handle(self, request: web.Request) -> web.Response:
        key = unquote(request.path.removeprefix("/bucket").removeprefix("/"))
        body = _unchunked(request, await request.read())
        if request.method in ("PUT", "POST") and self.refuse and self.refuse in key:
            return _xml("<Error><Code>AccessDenied</Code><Message>no</Message></Error>", 403)
        if not key:
            return self._of_bucket(request, body)
        if "uploads" in request.query:
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = {}
            return _xml(
                f"<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
        if "uploadId" in request.query:
            return self._part(request, key, body)
        if request.method == "PUT":
            self.objects[key] = body
            return web.Response(headers={"ETag": '"x"'})
        if request.method == "DELETE":
            self.objects.pop(key, None)
            return web.Response(status=204)
        return self._read(request, key)

    def _part(self, request: web.Request, key: str, body: bytes) -> web.Response:
        parts = self.uploads[request.query["uploadId"]]
        if request.method == "PUT":
            parts[int(request.query["partNumber"])] = body
            return web.Response(headers={"ETag": '"x"'})
        if request.method == "POST":
            self.objects[key] = b"".join(parts[number] for number in sorted(parts))
            return _xml(
                "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
            )
        return web.Response(status=204)

    def _read(self, request: web.Request, key: str) -> web.Response:
        if key not in self.objects:
            return _xml("<Error><Code>NoSuchKey</Code></Error>", 404)
        data = self.objects[key]
        headers = {"ETag": '"x"', "Last-Modified": formatdate(0, usegmt=True)}
        wanted = request.http_range
        if wanted.start is not None or wanted.stop is not None:
            begin, end, _ = wanted.indices(len(data))
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
            return web.Response(status=206, body=data[begin:end], headers=headers)
        return web.Response(body=data, headers=headers)

    def _of_bucket(self, request: web.Request, body: bytes) -> web.Response:
        if request.method == "POST":
            for each in ET.fromstring(body).iter():
                if each.tag.endswith("Key"):
                    self.objects.pop(each.text or "", None)
            return _xml("<DeleteResult></DeleteResult>")
        if request.method == "HEAD":
            return web.Response()
        prefix = request.query.get("prefix", "")
        delimiter = request.query.get("delimiter", "")
        most = int(request.query.get("max-keys", 1000))
        keys, folders = [], []
        for key in sorted(self.objects):
            if key.startswith(prefix):
                rest = key[len(prefix) :]
                if delimiter and delimiter in rest:
                    folders.append(prefix + rest.partition(delimiter)[0] + delimiter)
                else:
                    keys.append(key)
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key])}</Size>"
            "<LastModified>2024-01-01T00:00:00Z</LastModified><ETag>x</ETag></Contents>"
            for key in keys[:most]
        )
        found += "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            for folder in dict.fromkeys(folders)
        )
        return _xml(
            f"<ListBucketResult><Name>bucket</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<IsTruncated>false</IsTruncated><KeyCount>{len(keys)}</KeyCount>{found}"
            "</ListBucketResult>"
        )


def _unchunked(request: web.Request, body: bytes) -> bytes:
    """The payload of a body that is signed in pieces."""
    if "aws-chunked" not in request.headers.get("Content-Encoding", ""):
        return body
    whole = b""
    while body:
        head, _, rest = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            break
        whole, body = whole + rest[:size], rest[size + 2 :]
    return whole


def _xml(text: str, status: int = 200) -> web.Response:
    return web.Response(text=f'<?xml version="1.0"?>{text}', status=status,
                        content_type="application/xml")  # fmt: skip


@contextmanager
def bucket() -> Iterator[Bucket]:
    """The endpoint, as long as the block runs."""
    made, ready, loop = Bucket(), threading.Event(), asyncio.new_event_loop()

    async def serve() -> web.AppRunner:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", made.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.port = runner.addresses[0][1]
        ready.set()
        return runner

    def run() -> None:
        runner = loop.run_until_complete(serve())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
