"""The wheel, installed where nothing else is, does what it is for; each extra as well."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

import counterpoise
from tests.release.wheel import EXTRAS, ROOT, build, environment

USE = Path(__file__).parent / "use.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"counterpoise-{counterpoise.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names}
    assert tops == {"counterpoise", f"counterpoise-{counterpoise.__version__}.dist-info"}
    kept = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted = {name.removeprefix("src/") for name in kept.stdout.splitlines()}
    assert wanted <= names


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra or "nothing more")
def test_it_is_used_with(extra: str, wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "there", wheel, extra)
    done = subprocess.run(
        [str(python), "-I", str(USE), extra],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"] == counterpoise.__version__


def test_the_changelog_speaks_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings
    assert any(each.startswith(("Unreleased", counterpoise.__version__)) for each in headings)


def test_a_missing_declaration_is_noticed(wheel: Path, tmp_path: Path) -> None:
    """Or the environments would show nothing."""
    python = environment(tmp_path / "there", wheel, "")
    done = subprocess.run(
        [str(python), "-I", str(USE), "console"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "nicegui" in done.stderr
