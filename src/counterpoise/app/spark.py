"""Starts Spark for verbs: its settings, its session, and a file for the traceback of errors."""

import argparse
import os
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from counterpoise.app.errors import UserError
from counterpoise.pipeline.stream import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING: Mapping[str, str] = MappingProxyType({})


def spark_conf(args: argparse.Namespace) -> dict[str, str]:
    """Parse the settings of ``--spark-conf NAME=VALUE``; raises `UserError`."""
    found = {}
    for text in args.spark_conf:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--spark-conf {text}: expected NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


@contextmanager
def spark_session(
    args: argparse.Namespace,
    settings: Mapping[str, str] = NOTHING,
    strategies: Sequence[object] = (),
) -> "Iterator[SparkSession]":
    """Run a Spark session on ``--master`` during the block; raises `UserError`.

    ``--spark-conf`` overrides ``settings``; executors get the code of the ``strategies``.
    """
    conf = {**settings, **spark_conf(args)}
    try:
        spark = session.start_session(args.master, partitions=2, conf=conf, strategies=strategies)
    except session.SessionError as error:
        raise UserError(f"{error} (details: {written(error)})") from None
    try:
        session.register_sources(spark)
        yield spark
    finally:
        session.stop_spark(spark)


def written(error: BaseException) -> str:
    """Write an error's traceback to a new temporary file, and return the file's path."""
    handle, name = tempfile.mkstemp(prefix="counterpoise-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(traceback.format_exception(error))
    return name
