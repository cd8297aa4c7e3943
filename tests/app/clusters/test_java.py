"""Finding a Java: where it is looked for, which versions will do, what is said when none does."""

from pathlib import Path

import pytest

from counterpoise.app.clusters.java import find_java, java_version
from counterpoise.app.errors import UserError


def install(home: Path, version: str) -> Path:
    """A directory that looks like a Java of that version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.mark.parametrize(
    ("text", "release"),
    [("17.0.15", 17), ("21", 21), ("25.0.1", 25), ("1.8.0_302", 8), ("1.8", 8), ("22-ea", 22)],
)
def test_versions_are_read_in_all_their_spellings(tmp_path: Path, text: str, release: int) -> None:
    assert java_version(install(tmp_path / "jdk", text)) == release


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"19.0.2\" 2023-01-17' >&2\n")
    program.chmod(0o755)
    assert java_version(program) == 19


def test_java_home_comes_first_then_path_then_the_usual_places(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "17.0.1")
    path = install(tmp_path / "path", "21.0.1")
    usual = install(tmp_path / "jvm" / "one", "22")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    roots = [tmp_path / "jvm"]
    assert find_java(environ, roots) == home
    assert find_java({"PATH": str(path.parent)}, roots) == path
    assert find_java({"PATH": ""}, roots) == usual


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path / "home", "11.0.2")
    install(tmp_path / "jvm" / "an-old-one", "11")
    usual = install(tmp_path / "jvm" / "new", "17")
    assert find_java({"JAVA_HOME": str(tmp_path / "home")}, [tmp_path / "jvm"]) == usual


def test_the_error_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    old = install(tmp_path / "home", "1.8.0_302")
    with pytest.raises(UserError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}, [])
    printed = str(caught.value)
    assert f"{old} is version 8" in printed
    assert "install" in printed
    assert "JAVA_HOME" in printed
