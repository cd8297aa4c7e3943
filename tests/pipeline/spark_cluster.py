"""A standalone Spark cluster: a master and workers, each a process with a directory of its own.

Their Python knows the packages of this environment, and nothing of `counterpoise`.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from venv import EnvBuilder

import psutil

from counterpoise.app.clusters.java import find_java
from counterpoise.app.clusters.processes import Child, ChildSpec
from counterpoise.pipeline.stream.session import home_without_zips

_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "sun.nio.ch",
    "java.net",
)


@dataclass(frozen=True)
class StandaloneSpark:
    """The cluster: where its master is, its workers' directories, and the Python of executors."""

    master: str
    workers: tuple[Path, ...]
    python: Path
    pids: tuple[int, ...]

    @property
    def arguments(self) -> list[str]:
        """What a verb is given to run on it."""
        return [
            "--master",
            self.master,
            "--spark-conf",
            f"spark.pyspark.python={self.python}",
            "--spark-conf",
            "spark.executor.memory=512m",
            "--spark-conf",
            "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1",
        ]

    def packages(self) -> list[Path]:
        """What was brought to the executors, one file for each executor that ran a task."""
        return [file for home in self.workers for file in home.rglob("counterpoise.zip")]

    def executors(self) -> list[psutil.Process]:
        """The executors' processes, on any worker."""
        children = [
            child for pid in self.pids for child in psutil.Process(pid).children(recursive=True)
        ]
        kind = "CoarseGrainedExecutorBackend"
        return [child for child in children if kind in " ".join(child.cmdline())]


@contextmanager
def standalone_spark(home: Path, workers: int = 2, cores: int = 1) -> Iterator[StandaloneSpark]:
    """The cluster, as long as the block runs."""
    python = _python_without_us(home / "venv")
    with ExitStack() as stack:
        master = stack.enter_context(
            _begun(home / "master", "master.Master", "--port", "0", says="master at spark://")
        )
        url = "spark://" + master.wait_ready().rpartition("spark://")[2].strip()
        homes = [home / f"worker-{number}" for number in range(workers)]
        started = [
            stack.enter_context(
                _begun(
                    each, "worker.Worker", "--cores", str(cores), "--memory", "1g",
                    "--work-dir", str(each / "work"), url, says="registered with master",
                )
            )
            for each in homes
        ]  # fmt: skip
        for worker in started:
            worker.wait_ready()
        yield StandaloneSpark(url, tuple(homes), python, tuple(each.pid for each in started))


def _python_without_us(home: Path) -> Path:
    """A virtual environment with this one's packages, and without the package under test.

    The `.pth` file of an editable install counts in its own environment only.
    """
    EnvBuilder(symlinks=True).create(home)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    [own] = home.glob("lib/python*/site-packages")
    (own / "packages.pth").write_text(f"{packages}\n")
    return home / "bin" / "python"


def _begun(home: Path, name: str, *words: str, says: str) -> Child:
    import pyspark

    spark = Path(pyspark.__file__).parent
    home.mkdir(parents=True)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    known = ("HOME", "PATH", "LANG", "JAVA_HOME")
    run = [
        str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened,
        "-cp", f"{spark}/jars/*",
        f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *words,
    ]  # fmt: skip
    environment = {each: os.environ[each] for each in known if each in os.environ}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": home_without_zips()}
    environment |= {"SPARK_SCALA_VERSION": "2.13"}
    variables = [f"{key}={value}" for key, value in environment.items()]
    return Child(
        ChildSpec(
            name=name.rpartition(".")[2].lower(),
            argv=["/usr/bin/env", "-i", "-C", str(home), *variables, *run],
            is_ready=lambda line: says in line.replace("Successfully r", "r"),
            log=home / "log",
        )
    )
