"""An operator's own strategies, brought to executors as this package is."""

import atexit
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

OURS = __name__.partition(".")[0]
SHARED = frozenset({"site-packages", "dist-packages"})


def archive_of(objects: Iterable[object]) -> str | None:
    """A zip with the code of these objects' classes; None when all of them are our own.

    A strategy that lies in the operator's directory comes with what it has imported from there.
    One that was installed comes with its own package: what that needs, executors have to have.
    """
    files: dict[str, Path] = {}
    for module in sorted({type(each).__module__ for each in objects}):
        top = module.partition(".")[0]
        if top != OURS:
            files.update(_files_of(top))
    if not files:
        return None
    home = tempfile.mkdtemp(prefix="counterpoise-strategies-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    # Spark adds it by this name to what it has brought before.
    target = Path(home) / "strategies.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, name)
    return str(target)


def _files_of(top: str) -> Iterator[tuple[str, Path]]:
    """The files of a module or package, and of its neighbours that were imported with it."""
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
            for file in sorted(package.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    yield str(file.relative_to(root)), file
        elif (source := package.with_suffix(".py")).is_file():
            yield source.name, source


def _root_of(name: str) -> Path | None:
    """The directory that a module was found in; None for what no file says."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    return path.parent.parent if path.stem == "__init__" else path.parent
