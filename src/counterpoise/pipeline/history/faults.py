"""What can be wrong with a history, each as one sentence that ends with the way on."""

import errno
import re

import pyarrow as pa

_MARK = re.compile(r"(?:HistoryFaultError|OutOfReachError): ([^\n]+)")
_OF_STORES = ("AWS Error", "google::cloud::Status", "Azure")
"""What `pyarrow`'s file systems say of a service's refusals and silence."""
_LOOK = "see that address and keys are right, and that the store answers"


class HistoryFaultError(Exception):
    """The history cannot be read or written; the message says what, where and what to do."""


class OutOfReachError(HistoryFaultError):
    """A history that may be whole, and that we cannot look at now."""


def is_out_of_reach(error: Exception) -> bool:
    """Whether nothing was read: the store didn't answer, or may not be read by us."""
    return (
        isinstance(error, PermissionError)
        or type(error) is pa.ArrowException
        or any(words in str(error) for words in _OF_STORES)
    )


def unreadable(uri: str, error: Exception) -> OutOfReachError:
    """Something of a history that could not be read, and may be whole."""
    remedy = "let this user read there" if isinstance(error, PermissionError) else _LOOK
    return OutOfReachError(f"{uri} cannot be read ({_short(error)}): {remedy}, then try again")


def damaged(file: str, history: str, error: Exception) -> HistoryFaultError:
    """A file that is there and cannot be read."""
    return HistoryFaultError(
        f"{file} is damaged ({_short(error)}): `counterpoise history repair {history}` sets such "
        "files aside, and the balancer goes on without what they held"
    )


def unwritable(uri: str, error: Exception) -> HistoryFaultError:
    """A file that cannot be written."""
    remedy = {
        errno.ENOSPC: "the disk is full: make room, `--retain-days` keeps fewer days",
        errno.EDQUOT: "the quota is used up: make room, `--retain-days` keeps fewer days",
        errno.EROFS: "it is read-only: mount it for writing, or name another --history",
        errno.EACCES: "permission denied: let this user write there, or name another --history",
        errno.EFBIG: "a limit on the size of files (ulimit -f) is in the way: raise it",
        errno.EEXIST: "a file is where a directory is wanted: name another --history",
        errno.ENOTDIR: "a file is where a directory is wanted: name another --history",
        errno.EPERM: "not permitted: let this user write there, or name another --history",
    }.get(getattr(error, "errno", 0) or 0, _short(error))
    return HistoryFaultError(
        f"{uri} cannot be written, {remedy}; then start again, nothing is lost or done twice"
    )


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def from_spark(message: str) -> str:
    """The sentence of a fault that came through Spark's messages; empty where there is none."""
    found = _MARK.search(message)
    return found.group(1).strip() if found else ""
