"""``make admin-table``: the session on a real Pulsar and on ours; writes what Pulsar said.

``python -m tests.admin.table --page`` writes the page alone, from what was recorded.
"""

import json
import sys
import tempfile
from pathlib import Path

from bench._real_pulsar import standalone

from tests.admin.table.compare import Answer, keyed, unexplained
from tests.admin.table.known import DIFFERS
from tests.admin.table.page import PAGE, page
from tests.admin.table.record import SETTLE_S, VECTORS, play_on_ours, recorded, session
from tests.admin.table.session import SESSIONS
from tests.conformance.jars import pulsar_lib


def main(words: list[str]) -> int:
    """Play it; 1 if a difference has no reason in `known`."""
    different: list[str] = []
    if "--page" not in words:
        lib = pulsar_lib()
        if lib is None:
            return 2
        with tempfile.TemporaryDirectory() as folder:
            _record(lib, Path(folder))
            different = _compare(Path(folder))
    PAGE.write_text(page(recorded()))
    sys.stdout.write("".join(f"{each}\n" for each in different))
    return 1 if different else 0


def _record(lib: Path, folder: Path) -> None:
    answers: list[Answer] = []
    for number, (rows, settings) in enumerate(SESSIONS):
        with standalone(lib, folder / f"pulsar-{number}", settings=settings) as real:
            urls = real.service_url, real.admin_url
            with session(*urls, folder, settle_s=SETTLE_S) as made:
                commands = made.tool.commands()
                answers += made.play(rows)
    found = {"commands": commands, "answers": answers}
    VECTORS.write_text(json.dumps(found, indent=1) + "\n")


def _compare(folder: Path) -> list[str]:
    theirs, ours = keyed(recorded()["answers"]), play_on_ours(folder)
    different, alike = unexplained(theirs, ours, DIFFERS)
    return different + alike


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
