"""Writes the recording of ``counterpoise up --record``."""

import itertools
import logging
import os
import time
from pathlib import Path
from typing import Final

from counterpoise.app.errors import UserError
from counterpoise.faults.recording import HEADER, RecordKind, TrafficRecord

RECORD_MIB: Final = 1024
_log = logging.getLogger(__name__)


class RecordingFile:
    """A file that records the frames between clients and brokers, for a replay.

    Each record is written at once, so that at most the last one is lost by a kill. Recording stops
    when the file has its largest size or cannot be written; the brokers are not affected.
    """

    def __init__(self, path: Path, limit_mib: int = RECORD_MIB) -> None:
        """Create the file, readable only by its owner; raises `UserError` if it exists."""
        if limit_mib < 1:
            raise UserError(f"a recording of {limit_mib} MiB: allow it at least 1.")
        self._path = path
        self._left = limit_mib * 1024 * 1024 - len(HEADER)
        self._numbers = itertools.count(1)
        self._began = time.monotonic_ns()
        try:
            # Unbuffered: what was written survives the process.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._file = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
            self._file.write(HEADER)
        except OSError as error:
            raise UserError(
                f"cannot record to {path}: {error.strerror}. Choose a file that does not exist."
            ) from None

    def opened(self) -> int:
        """Record that a client connected; returns the connection's number."""
        number = next(self._numbers)
        self._write(RecordKind.OPENED, number)
        return number

    def received(self, connection: int, frame: bytes) -> None:
        """Record a frame that the client sent."""
        self._write(RecordKind.FROM_CLIENT, connection, frame)

    def sent(self, connection: int, command: bytes) -> None:
        """Record a frame sent to the client; ``command`` is its command without the payload."""
        self._write(RecordKind.TO_CLIENT, connection, command)

    def closed(self, connection: int) -> None:
        """Record that the connection has ended."""
        self._write(RecordKind.CLOSED, connection)

    def close(self) -> None:
        """Stop recording, and close the file."""
        self._file.close()

    def _write(self, kind: RecordKind, connection: int, data: bytes = b"") -> None:
        if self._file.closed:
            return
        at_us = (time.monotonic_ns() - self._began) // 1000
        record = TrafficRecord(kind, connection, at_us, data).to_bytes()
        self._left -= len(record)
        if self._left < 0:
            self._stop("it is as large as --record-mib allows")
            return
        try:
            written = self._file.write(record)
        except OSError as error:
            self._stop(str(error))
            return
        if written != len(record):
            self._stop("the disk took a part of a record only")

    def _stop(self, why: str) -> None:
        """Stop recording, and log why; the brokers continue without it."""
        self._file.close()
        _log.warning("Recording to %s stops here: %s. The cluster goes on.", self._path, why)
