"""``counterpoise decide`` in this process, for the tests of several rooms."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from counterpoise.app.main import main

Decide = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Decide:
    """``counterpoise decide`` over lines (objects, text or bytes): status, answers, complaint."""

    def run(words: str, *lines: object, more: tuple[str, ...] = ()) -> Any:
        texts = [each if isinstance(each, bytes | str) else json.dumps(each) for each in lines]
        data = b"".join(
            (each if isinstance(each, bytes) else each.encode()) + b"\n" for each in texts
        )
        stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stdin)
        status = main(["decide", *words.split(), *more])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert "internal" not in said.err
        return status, [json.loads(each) for each in said.out.splitlines()], said.err

    return run
