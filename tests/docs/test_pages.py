"""Every command in the documentation is typed, in the order of its page, and does what it says."""

from pathlib import Path

import pytest

from tests.docs.follow import follow
from tests.docs.page import Command, Page, matches, read_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    str(path.relative_to(DOCS)): read_page(path)
    for path in sorted(DOCS.rglob("*.md"))
    if not path.is_relative_to(DOCS / "_made")
}
LEFT_OUT = {"pip install", "counterpoise storage", "COUNTERPOISE_PULSAR_LIB="}
"""By how it begins: what `tests/release` types, into an environment of its own, and what
`tests/real` does on a real Pulsar or real bookies."""
WITH_COMMANDS = [name for name, page in PAGES.items() if page.steps]


@pytest.mark.client
@pytest.mark.parametrize("name", WITH_COMMANDS)
@pytest.mark.timeout(600)
def test_a_page_can_be_followed(name: str, tmp_path: Path) -> None:
    follow(PAGES[name], tmp_path)


def test_hardly_anything_is_left_out() -> None:
    left_out = [text for page in PAGES.values() for text, _ in page.left_out]
    assert all(any(text.startswith(begin) for begin in LEFT_OUT) for text in left_out), left_out
    assert all(why for page in PAGES.values() for _, why in page.left_out)


def test_a_page_is_read_as_a_person_reads_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# T\n\n% file: a.txt\n```python\nx = 1\n```\n\n% status: 2\n```console\n$ false \\\n"
        "     now\nno...\n$ true\n```\n\n% not run here: it is large\n```console\n$ rm x\n```\n"
    )
    found = read_page(page)
    assert [type(step).__name__ for step in found.steps] == ["File", "Command", "Command"]
    assert found.steps[1] == Command("false now", "no...\n", (2,))
    assert found.left_out == (("rm x", "it is large"),)
    page.write_text("```python\nnever_run()\n```\n")
    with pytest.raises(ValueError, match="neither file nor command"):
        read_page(page)


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("", "", True),
        ("", "anything", False),
        ("...", "anything", True),
        ("ok\n", "ok", True),
        ("a ... c", "a\nb\nc", True),
        ("a ... c", "a\nb\nd", False),
        ("2 passed in ...", "2 passed in 1.2s", True),
    ],
)
def test_answers_are_compared(wanted: str, got: str, same: bool) -> None:
    assert matches(wanted, got) is same


@pytest.mark.parametrize("wrong", ["$ false", "$ echo a\nb", "$ nowhere-to-be-found"])
def test_a_command_that_does_something_else_is_noticed(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"```console\n{wrong}\n```\n")
    page: Page = read_page(tmp_path / "page.md")
    with pytest.raises(AssertionError):
        follow(page, tmp_path)
