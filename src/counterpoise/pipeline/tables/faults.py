"""What can be wrong with a history: exceptions whose text is a sentence with the next step."""

import errno
import re

import pyarrow as pa

from counterpoise.names.errors import ExplainedError

_OF_STORES = ("AWS Error", "google::cloud::Status", "Azure", "Generic S3", "Generic GCS")
"""Texts that occur in errors of `pyarrow`'s file systems and delta-rs if a store refused a request
or did not answer."""
_OUTAGE = re.compile(
    r"NETWORK_CONNECTION|UNAVAILABLE|SLOW_DOWN|INTERNAL_FAILURE|REQUEST_TIMEOUT|status 5\d\d"
    r"|DEADLINE_EXCEEDED|after \d+ retries|error sending request|operation timed out"
    r"|50\d [A-Z][a-z]+"
)
"""The texts that mean that a service cannot be reached now, and not that a request was wrong."""
_CAUSE = re.compile(r"↳(?:\x1b\[\d*m)? (.*)")
"""Finds the lines, partly coloured, in which delta-rs lists what caused an error."""
_LOOK = "see that address and keys are right, and that the store answers"


class HistoryFaultError(ExplainedError):
    """The history cannot be read or written; the message says what, where and what to do."""


class DamagedError(HistoryFaultError):
    """A file exists but its content is damaged."""


class OutOfReachError(HistoryFaultError):
    """The history cannot be read now, and may be undamaged."""


class OutageError(OutOfReachError):
    """The history cannot be read now because the storage service fails, which is transient."""


class SupersededError(HistoryFaultError):
    """Another writer has taken the history over; this one must stop for good."""


class HistoryInUseError(ExplainedError):
    """Another process is writing this history."""


_KINDS = {
    kind.__name__: kind
    for kind in (HistoryFaultError, DamagedError, OutOfReachError, OutageError, SupersededError)
}
_MARK = re.compile(rf"({'|'.join(_KINDS)}): ([^\n]+)")


def is_out_of_reach(error: Exception) -> bool:
    """Whether an error means that the store did not answer or denied access: nothing was read."""
    return (
        isinstance(error, PermissionError)
        or type(error) is pa.ArrowException
        or any(words in str(error) for words in _OF_STORES)
    )


def unreadable(uri: str, error: Exception) -> OutOfReachError:
    """The error for something that cannot be read now, but may be undamaged."""
    remedy = "let this user read there" if isinstance(error, PermissionError) else _LOOK
    sentence = f"{uri} cannot be read ({brief(error)}): {remedy}, then try again"
    return (OutageError if _OUTAGE.search(str(error)) else OutOfReachError)(sentence)


def damaged(file: str, history: str, error: Exception) -> DamagedError:
    """The error for a file that exists but whose content is damaged."""
    return DamagedError(
        f"{file} is damaged ({brief(error)}): `counterpoise history repair {history}` sets such "
        "files aside, and the balancer goes on without what they held"
    )


def superseded(history: str) -> SupersededError:
    """The error for a history that another writer has taken over."""
    return SupersededError(
        f"another balancer has taken {history} over while this one stood still: this one writes "
        "nothing there any more"
    )


def unwritable(uri: str, error: Exception) -> HistoryFaultError:
    """The error for a file that cannot be written."""
    remedy = {
        errno.ENOSPC: "the disk is full: make room, `--retain-days` keeps fewer days",
        errno.EDQUOT: "the quota is used up: make room, `--retain-days` keeps fewer days",
        errno.EROFS: "it is read-only: mount it for writing, or name another --history",
        errno.EACCES: "permission denied: let this user write there, or name another --history",
        errno.EFBIG: "a limit on the size of files (ulimit -f) is in the way: raise it",
        errno.EEXIST: "a file is where a directory is wanted: name another --history",
        errno.ENOTDIR: "a file is where a directory is wanted: name another --history",
        errno.EPERM: "not permitted: let this user write there, or name another --history",
    }.get(_number(error), brief(error))
    sentence = f"{uri} cannot be written, {remedy}; then start again, nothing is lost or done twice"
    return (OutageError if _OUTAGE.search(str(error)) else HistoryFaultError)(sentence)


def _number(error: Exception) -> int:
    """The errno of an operating system's error, which delta-rs gives in its text; 0 without one."""
    if number := getattr(error, "errno", None):
        return int(number)
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else 0


def brief(error: Exception) -> str:
    """The first line of an error's text, and its innermost cause, at most 200 characters."""
    first, causes = str(error).partition("\n")[0], _CAUSE.findall(str(error))
    return ": ".join([first, *causes[-1:]])[:200]


def fault_from_spark(message: str) -> HistoryFaultError | None:
    """The `HistoryFaultError` that failed a Spark task, from Spark's message; None without one."""
    found = _MARK.search(message)
    return _KINDS[found.group(1)](found.group(2).strip()) if found else None
