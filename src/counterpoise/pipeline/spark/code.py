"""Ships code to executors: this package and an operator's strategies.

Executors need the packages of `counterpoise[pipeline]`, but not `counterpoise` itself.
"""

import atexit
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS = __name__.partition(".")[0]
SHARED = frozenset({"site-packages", "dist-packages"})


def ship_code(spark: "SparkSession", strategies: Iterable[object] = ()) -> None:
    """Make this package, and the code of an operator's own strategies, available to the session's
    executors.

    Call it before registering a data source, which is sent with the code shipped by then. Works in
    classic and Spark Connect sessions. Tasks of a `local` master import the package from this
    process's environment, a second faster than from a zip.
    """
    from pyspark.sql import is_remote

    elsewhere = is_remote() or not str(spark.conf.get("spark.master", "")).startswith("local")
    for archive in archives(strategies, elsewhere=elsewhere):
        spark.addArtifacts(archive, pyfile=True)


def archives(strategies: Iterable[object], *, elsewhere: bool) -> Iterator[str]:
    """The paths of the zips that executors need: this package if they run `elsewhere` than here,
    and the code of an operator's own strategies.
    """
    if elsewhere:
        yield _package()
    if own := archive_of(strategies):
        yield own


def archive_of(objects: Iterable[object]) -> str | None:
    """The path of a zip with the code of these objects' classes; None when all are this package's
    own.

    A strategy in the operator's directory comes with what it has imported from there; an installed
    one with its own package, whose dependencies executors must have.
    """
    files: dict[str, Path] = {}
    for module in sorted({type(each).__module__ for each in objects}):
        top = module.partition(".")[0]
        if top != OURS:
            files.update(_files_of(top))
    if not files:
        return None
    return _archive("strategies.zip", files)


@cache
def _package() -> str:
    """The path of a zip of this package; the same for each session of this process, since Spark
    refuses a second file of the same name.
    """
    return _archive(f"{OURS}.zip", _files_in(Path(__file__).resolve().parents[2]))


def _archive(name: str, files: Mapping[str, Path]) -> str:
    """Write a zip, and return its path; `files` are by their names in it, `name` is the zip's."""
    home = tempfile.mkdtemp(prefix="counterpoise-code-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    target = Path(home) / name
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, path in sorted(files.items()):
            archive.write(path, inside)
    return str(target)


def _files_in(package: Path) -> dict[str, Path]:
    """A package's files by their names below its parent directory."""
    return {
        str(file.relative_to(package.parent)): file
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def _files_of(top: str) -> Iterator[tuple[str, Path]]:
    """The files of a module or package, and of neighbours that were imported with it."""
    root = _root_of(top)
    if root is None:
        return
    names = {top}
    if not SHARED & set(root.parts):
        names |= {
            name
            for name in tuple(sys.modules)
            if "." not in name and name not in (OURS, "__main__") and _root_of(name) == root
        }
    for name in names:
        package = root / name
        if package.is_dir():
            yield from _files_in(package).items()
        elif (source := package.with_suffix(".py")).is_file():
            yield source.name, source


def _root_of(name: str) -> Path | None:
    """The directory from which a module was imported; None without a file."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    return path.parent.parent if path.stem == "__init__" else path.parent
