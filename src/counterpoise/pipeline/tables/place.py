"""Where a history is: what a person writes for it, and the file system that has it."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?(.*)", re.DOTALL)
"""Two letters at least."""
_ALIKE = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_BUCKETS = ("s3", "gs", "abfs", "abfss")
_KNOWN = (*_BUCKETS, "hdfs", "viewfs")
_NEEDS = {
    "hdfs": "; hdfs:// needs Hadoop's client here: JAVA_HOME, HADOOP_HOME and its CLASSPATH",
}


def file_system(uri: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the root there; raises `ValueError`, a sentence.

    What looks like a URI is never taken for a directory of that name.
    """
    if not uri.strip():
        raise ValueError(
            "the history has no name: give a directory or a URI, such as ./history or s3://bucket/h"
        )
    found = _SCHEME.fullmatch(uri)
    if found is None:
        return fs.LocalFileSystem(), str(Path(uri).absolute())
    scheme, slashes, rest = found.groups()
    known = _ALIKE.get(scheme.lower(), scheme.lower())
    if known == "file":
        return fs.LocalFileSystem(), _path_of_file(uri, slashes, rest)
    said = f"history {address_of(uri)}"
    if known not in _KNOWN:
        raise ValueError(
            f"{said}: nothing here opens {scheme}: (there are directories, s3://, gs://, hdfs:// "
            f"and abfs://; a directory of that name is ./{uri})"
        )
    if not slashes:
        raise ValueError(f"{said}: expected {scheme}://…; a directory of that name is ./{uri}")
    if known in _BUCKETS and not rest.partition("?")[0].strip("/"):
        raise ValueError(f"{said} names no bucket: expected {scheme}://bucket/path")
    try:
        filesystem, root = fs.FileSystem.from_uri(f"{known}://{rest}")
    except (pa.ArrowException, OSError) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(f"{said}: {why}{_NEEDS.get(known, '')}") from None
    return filesystem, root.rstrip("/")


def address_of(uri: str) -> str:
    """A URI without what it may hold of keys and parameters."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return scheme
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _path_of_file(uri: str, slashes: str | None, rest: str) -> str:
    host, slash, path = rest.partition("/") if slashes else ("", rest[:1], rest[1:])
    if host not in ("", "localhost") or slash != "/" or not path:
        raise ValueError(f"history {uri}: expected file:///an/absolute/path")
    return str(Path("/" + unquote(path)))
