"""Every verb's ``--help``, as it prints it."""

from __future__ import annotations

import contextlib
import io
import os

from counterpoise.app.main import VERBS, main

HEAD = """\
# Verbs

What `counterpoise VERB --help` prints, for each verb.
"""


def page() -> str:
    """The page's text."""
    return "\n".join([HEAD, *(f"## {v.name}\n\n```text\n{_help(v.name)}```\n" for v in VERBS)])


def _help(verb: str) -> str:
    os.environ["COLUMNS"] = "96"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([verb, "--help"])
    return printed.getvalue()
