"""The first use after an installation; run in the new environment."""

import importlib
import json
import subprocess
import sys
import urllib.request

MODULES = {
    "": ("counterpoise.quota", "counterpoise.app.verbs.up"),
    "pipeline": ("counterpoise.pipeline.stream.session", "counterpoise.pipeline.tables.journal"),
    "demo": ("counterpoise.app.verbs.demo", "counterpoise.pipeline.stream.session", "pulsar"),
    "console": ("counterpoise.console", "nicegui"),
}
BEYOND = {"": ("pyspark", "pandas", "pyarrow", "nicegui", "pulsar", "matplotlib")}
"""What must not be there."""


def main(extra: str) -> None:
    import counterpoise

    assert "site-packages" in counterpoise.__file__, counterpoise.__file__
    for name in BEYOND.get(extra, ()):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        raise AssertionError(f"{name} is there without being asked for")
    for name in MODULES[extra]:
        importlib.import_module(name)
    with counterpoise.Cluster(brokers=2) as cluster:
        brokers = f"{cluster.admin_url}/admin/v2/brokers/standalone"
        with urllib.request.urlopen(brokers) as answer:
            assert len(json.load(answer)) == 2
    helped = subprocess.run(
        [sys.executable, "-m", "counterpoise", "--help"], capture_output=True, text=True, check=True
    )
    verbs = [line.split()[0] for line in helped.stdout.splitlines() if line.startswith("    ")]
    assert {"up", "balance"} <= set(verbs)
    sys.stdout.write(json.dumps({"version": counterpoise.__version__, "verbs": len(verbs)}))


main(sys.argv[1] if len(sys.argv) > 1 else "")
