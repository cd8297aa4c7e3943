"""Where a real Apache Pulsar's jars are: an environment variable, a cache, or Maven fills it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MAIN_VERSION = "4.0.7"
"""The version that decides: every class but one is judged by it."""
AVG_SHEDDER_VERSION = "4.2.4"
"""AvgShedder's comparator could throw before it was made a proper order; this version has it."""

LIB_VARIABLE = "COUNTERPOISE_PULSAR_LIB"
CACHE_VARIABLE = "COUNTERPOISE_CACHE"
FETCH_SECONDS = 900
_POM = Path(__file__).with_name("pom.xml")


def pulsar_lib(version: str = MAIN_VERSION, *, fetch: bool = True) -> Path | None:
    """The directory with the jars of `version`, or None after saying on stderr why there is none.

    Looked for in this order: `$COUNTERPOISE_PULSAR_LIB` (the main version; another version's jars
    beside it under the same name with `-<version>`), the cache (`$COUNTERPOISE_CACHE`, else
    `~/.cache/counterpoise`), and a fetch by Maven into that cache.
    """
    candidates = (*_named_by_environment(version), cache() / f"pulsar-{version}")
    for directory in candidates:
        if any(directory.glob(f"pulsar-broker-{version}.jar")):
            return directory
    if not fetch:
        return None
    maven = shutil.which("mvn")
    if maven is None:
        _say(
            f"no jars of Pulsar {version}: set {LIB_VARIABLE} to their directory, or install Maven"
        )
        return None
    return _fetch(maven, version, cache() / f"pulsar-{version}")


def _named_by_environment(version: str) -> tuple[Path, ...]:
    named = os.environ.get(LIB_VARIABLE, "").strip()
    if not named:
        return ()
    main = Path(named)
    return (main, main.with_name(f"{main.name}-{version}"))


def cache() -> Path:
    named = os.environ.get(CACHE_VARIABLE, "").strip()
    return Path(named) if named else Path.home() / ".cache" / "counterpoise"


def _fetch(maven: str, version: str, target: Path) -> Path | None:
    """Fill `target` at once: it appears complete or not at all, even with several processes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _say(f"fetching the jars of Apache Pulsar {version} into {target} (about 240 MB, once)")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}-") as scratch:
        jars = Path(scratch) / "lib"
        command = [maven, "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        command += [f"-Dpulsar.version={version}"]
        command += ["-Ptools"] if version == MAIN_VERSION else []
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            _say(f"Maven did not finish within {FETCH_SECONDS} s; try again")
            return None
        if done.returncode != 0:
            _say(f"Maven could not fetch Pulsar {version}:\n{done.stdout[-2000:]}")
            return None
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():  # another process's complete fetch is as good as ours
                raise
    return target


def _say(sentence: str) -> None:
    print(f"conformance: {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    found = [pulsar_lib(version) for version in (MAIN_VERSION, AVG_SHEDDER_VERSION)]
    print(*(path for path in found if path is not None), sep="\n")
    sys.exit(0 if all(found) else 1)
