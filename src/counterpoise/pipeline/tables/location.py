"""The location of a history's tables: for `pyarrow`, for delta-rs, and as text in messages."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from counterpoise.names.errors import ExplainedError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?(.*)", re.DOTALL)
"""A URI: its scheme, of two letters at least, its slashes and the rest."""
_ALIKE = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_BUCKETS = ("s3", "gs", "abfs", "abfss")
_KNOWN = (*_BUCKETS, "hdfs", "viewfs")
_NEEDS = {"hdfs": "; hdfs:// needs Hadoop's client here: JAVA_HOME, HADOOP_HOME and its CLASSPATH"}
_PATIENCE = {"connect_timeout": "5s", "timeout": "15s", "retry_timeout": "30s"}
"""Time-outs for delta-rs: if a store does not answer, a commit fails after at most 45 s, while by
default it would take 180 s."""


class LocationError(ExplainedError, ValueError):
    """There can be no history at this path or URI."""


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a history, made by `open_location` from the path or URI of `--history`.

    It is pickled as its URI, so a task on another machine opens it itself.
    """

    uri: str

    @property
    def filesystem(self) -> Any:
        """The `pyarrow` file system that has the data files."""
        return _opened(self.uri)[0]

    @property
    def root(self) -> str:
        """The history's directory on `filesystem`."""
        return _opened(self.uri)[1]

    def path(self, name: str) -> str:
        """The path on `filesystem` of a file or folder named relative to the history's root."""
        return f"{self.root}/{name}"

    @property
    def local(self) -> Path | None:
        """The history's local directory; None on other file systems."""
        return Path(self.root) if isinstance(self.filesystem, fs.LocalFileSystem) else None

    @property
    def address(self) -> str:
        """The address of the history's root as messages show it: without keys and parameters."""
        return str(self.local or address_of(self.uri)).rstrip("/")

    def where(self, name: str) -> str:
        """A file's address as messages show it; `name` is relative to the history's root."""
        return f"{self.address}/{name}"

    def table_uri(self, table: str) -> str:
        """The URI of a table, as delta-rs takes it."""
        if self.local is not None:
            return self.path(table)
        parts = urlsplit(self.uri)
        scheme = _ALIKE.get(parts.scheme, parts.scheme)
        host = parts.netloc.rpartition("@")[2] if scheme in ("s3", "gs") else parts.netloc
        return f"{scheme}://{host}{parts.path.rstrip('/')}/{table}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The options for delta-rs to access the store, besides the process's environment."""
        if self.local is not None:
            return {}
        more = _of_s3(self.uri, os.environ) if self.uri.lower().startswith("s3") else {}
        return {**_PATIENCE, **more}


def open_location(uri: str | Path) -> Location:
    """The location of a path or URI; raises `LocationError` if it is not supported."""
    location = Location(str(uri))
    return Location(str(location.local)) if location.local is not None else location


def _of_s3(uri: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Options for delta-rs from an S3 URI, whose parameters are spelled as `pyarrow` takes them."""
    parts = urlsplit(uri)
    parameters = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    options = {}
    if endpoint := parameters.get("endpoint_override"):
        scheme = parameters.get("scheme", "https")
        options["AWS_ENDPOINT_URL"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if region := parameters.get("region"):
        options["AWS_REGION"] = region
    user, mark, _ = parts.netloc.rpartition("@")
    if mark:
        key, _, secret = user.partition(":")
        options |= {"AWS_ACCESS_KEY_ID": unquote(key), "AWS_SECRET_ACCESS_KEY": unquote(secret)}
    address = (
        options.get("AWS_ENDPOINT_URL")
        or environ.get("AWS_ENDPOINT_URL_S3")
        or environ.get("AWS_ENDPOINT_URL", "")
    )
    if address:
        options["AWS_ENDPOINT_URL"] = address
    if address.startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    return options


@lru_cache(maxsize=16)
def _opened(uri: str) -> tuple[Any, str]:
    """The `pyarrow` file system of a path or URI, and the root on it; raises `LocationError`.

    Text that looks like a URI is never taken for a directory name.
    """
    if not uri.strip():
        raise LocationError(
            "the history has no name: give a directory or a URI, such as ./history or s3://bucket/h"
        )
    found = _SCHEME.fullmatch(uri)
    if found is None:
        return fs.LocalFileSystem(), str(Path(uri).absolute())
    scheme, slashes, rest = found.groups()
    known = _ALIKE.get(scheme.lower(), scheme.lower())
    if known == "file":
        return fs.LocalFileSystem(), _path_of_file(uri, slashes, rest)
    subject = f"history {address_of(uri)}"
    if known not in _KNOWN:
        raise LocationError(
            f"{subject}: nothing here opens {scheme}: (there are directories, s3://, gs://, "
            f"hdfs:// and abfs://; a directory of that name is ./{uri})"
        )
    if not slashes:
        raise LocationError(
            f"{subject}: expected {scheme}://…; a directory of that name is ./{uri}"
        )
    if known in _BUCKETS and not rest.partition("?")[0].strip("/"):
        raise LocationError(f"{subject} names no bucket: expected {scheme}://bucket/path")
    try:
        filesystem, root = fs.FileSystem.from_uri(f"{known}://{rest}")
    except (pa.ArrowException, OSError) as error:
        why = str(error).partition("\n")[0]
        raise LocationError(f"{subject}: {why}{_NEEDS.get(known, '')}") from None
    return filesystem, root.rstrip("/")


def address_of(uri: str) -> str:
    """A URI without keys and parameters."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return scheme
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _path_of_file(uri: str, slashes: str | None, rest: str) -> str:
    host, slash, path = rest.partition("/") if slashes else ("", rest[:1], rest[1:])
    if host not in ("", "localhost") or slash != "/" or not path:
        raise LocationError(f"history {uri}: expected file:///an/absolute/path")
    return str(Path("/" + unquote(path)))
