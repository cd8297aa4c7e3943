"""What can be wrong with a history, each as one sentence that ends with the way on."""

import errno
import re

_MARK = "HistoryFaultError: "


class HistoryFaultError(Exception):
    """The history cannot be read or written; the message says what, where and what to do."""


def damaged(uri: str, error: Exception) -> HistoryFaultError:
    """A file that is there and cannot be read."""
    said = str(error).partition("\n")[0][:160]
    return HistoryFaultError(
        f"{uri} is damaged ({said}): `counterpoise history repair` sets such files aside, and the "
        "balancer goes on without what they held"
    )


def unwritable(uri: str, error: OSError) -> HistoryFaultError:
    """A file that cannot be written."""
    remedy = {
        errno.ENOSPC: "the disk is full: make room, `--retain-days` keeps fewer days",
        errno.EDQUOT: "the quota is used up: make room, `--retain-days` keeps fewer days",
        errno.EROFS: "it is read-only: mount it for writing, or name another --history",
        errno.EACCES: "permission denied: let this user write there, or name another --history",
        errno.EPERM: "not permitted: let this user write there, or name another --history",
    }.get(error.errno or 0, str(error).partition("\n")[0][:200])
    return HistoryFaultError(
        f"{uri} cannot be written, {remedy}; then start again, nothing is lost or done twice"
    )


def from_spark(message: str) -> str:
    """The sentence of a fault that came through Spark's messages; empty where there is none."""
    found = re.search(re.escape(_MARK) + r"([^\n]+)", message)
    return found.group(1).strip() if found else ""
