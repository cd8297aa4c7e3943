"""The wheel, installed where nothing else is, does what it is for; each extra as well."""

import json
import subprocess
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import counterpoise
from tests.release.wheel import EXTRAS, ROOT, build, environment, installed, needed, size

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


@pytest.fixture(scope="module")
def package(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("package"), wheel)


@pytest.fixture(scope="module")
def bare(wheel: Path, package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the wheel without extras."""
    return environment(tmp_path_factory.mktemp("bare") / "there", wheel, package, "")


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra or "nothing more")
def test_it_is_used_with(
    extra: str, wheel: Path, package: Path, bare: Path, tmp_path: Path
) -> None:
    python = environment(tmp_path / "there", wheel, package, extra) if extra else bare
    done = subprocess.run(
        [str(python), "-I", str(USE), extra],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"] == counterpoise.__version__


def test_every_package_is_pinned_as_it_was_tested(wheel: Path) -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    lines = (line.partition("==") for line in text.splitlines() if not line.startswith("#"))
    pinned = {canonicalize_name(name): version for name, _, version in lines}
    wanted = {name: metadata.version(name) for name in needed(wheel, "dev")}
    assert len(wanted) > 150
    assert {name: pinned.get(name) for name in wanted} == wanted


def test_the_base_stays_small(wheel: Path) -> None:
    """115 MB on disk, as `make release` measures it with what pip installs."""
    assert size(needed(wheel, "")) + wheel.stat().st_size <= 115e6


def test_the_changelog_speaks_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings
    assert any(each.startswith(("Unreleased", counterpoise.__version__)) for each in headings)


def test_a_missing_declaration_is_noticed(bare: Path) -> None:
    """Or the environments would show nothing."""
    done = subprocess.run(
        [str(bare), "-I", str(USE), "console"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "nicegui" in done.stderr
