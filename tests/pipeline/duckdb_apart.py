"""DuckDB in a process of its own, for tests that ask a history's tables by it.

It counts its objects when the interpreter ends, and prints pages about those that a thread of some
other test still holds then.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

Rows = list[tuple[Any, ...]]
Ask = Callable[[str, str], Rows]


def _asked(statements: str, question: str) -> Rows:
    import duckdb

    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        database.execute(statements)
        return database.execute(question).fetchall()


@contextmanager
def duckdb_apart() -> Iterator[Ask]:
    """Asks a question after statements, each time of a database that is empty before."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as process:
        yield lambda statements, question: process.submit(_asked, statements, question).result()
