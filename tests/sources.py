"""The files of the package, each parsed once for all that tests judge of them."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "src" / "counterpoise"
TASK_MAKERS: Final = frozenset({"create_task", "ensure_future", "TaskGroup"})


@dataclass(frozen=True)
class Source:
    """What is judged of a file of the package, which is parsed once for all judgements."""

    where: str
    text: str
    imports: tuple[tuple[int, str], ...]
    """Line and dotted name of everything it imports, relative imports resolved."""
    functions: tuple[tuple[str, int], ...]
    """Names, and how many lines each has."""
    classes: tuple[str, ...]
    makes_tasks: tuple[int, ...]
    """The lines that name a maker of asyncio's tasks."""

    @property
    def room(self) -> str:
        return self.where.split("/")[0] if "/" in self.where else "app"

    @property
    def name(self) -> str:
        return self.where.rsplit("/", 1)[-1]


@cache
def sources() -> tuple[Source, ...]:
    paths = sorted(p for p in PACKAGE.rglob("*.py") if not p.name.endswith("_pb2.py"))
    return tuple(source(str(p.relative_to(PACKAGE)), p.read_text(encoding="utf-8")) for p in paths)


def source(where: str, text: str) -> Source:
    package = ("counterpoise", *where.split("/")[:-1])
    imports: list[tuple[int, str]] = []
    functions, classes, makes_tasks = list[tuple[str, int]](), list[str](), list[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imports += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join((*base, *([node.module] if node.module else [])))
            imports += ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
        elif (isinstance(node, ast.Attribute) and node.attr in TASK_MAKERS) or (
            isinstance(node, ast.Name) and node.id in TASK_MAKERS
        ):
            makes_tasks.append(node.lineno)
    return Source(where, text, tuple(imports), tuple(functions), tuple(classes), tuple(makes_tasks))
