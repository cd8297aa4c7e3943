"""Renders the chart by Helm itself, and reads what it rendered as Kubernetes does."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kubernetes_validate
import yaml

from tests.conformance.jars import cache

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "counterpoise"
VERSION = "3.22.0"
ABSENT = "Helm is not here: `python -m tests.deploy` builds it by Go's module proxy"
KUBERNETES = "1.34.0"
BUILD_S = 1800.0
OTHERS = "monitoring.coreos.com/"
"""Kinds of the Prometheus operator, which Kubernetes' own schemas do not have."""

Resource = Mapping[str, Any]


def helm(*, build: bool = False) -> str | None:
    """The program; None where it is neither installed nor built, and cannot be."""
    kept = cache() / f"helm-{VERSION}" / "helm"
    if found := shutil.which("helm") or (str(kept) if kept.is_file() else None):
        return found
    go = shutil.which("go")
    if not build or go is None:
        return None
    subprocess.run(
        [go, "install", f"helm.sh/helm/v3/cmd/helm@v{VERSION}"],
        env={**os.environ, "GOBIN": str(kept.parent)},
        check=True,
        timeout=BUILD_S,
    )
    return str(kept)


class RefusedValuesError(AssertionError):
    """Helm refused to render the chart with these values; the message is what it said."""


def run_helm(verb: str, *words: str, values: Mapping[str, object]) -> str:
    """What Helm prints; raises `RefusedValuesError`."""
    program = helm()
    assert program is not None, ABSENT
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)), encoding="utf-8")
        done = subprocess.run(
            [program, verb, *words, "--values", str(file), "--kube-version", KUBERNETES],
            env={**os.environ, "HOME": scratch},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RefusedValuesError(done.stderr)
    return done.stdout


def render(values: Mapping[str, object]) -> list[Resource]:
    """The resources, each of which Kubernetes' schemas accept."""
    printed = run_helm("template", "pulsar-east", str(CHART), values=values)
    resources = [each for each in yaml.safe_load_all(printed) if each]
    for each in resources:
        expect_valid(each)
    return resources


def expect_valid(resource: Resource) -> None:
    """Raise for a resource that the API server would refuse, or a field that it does not know."""
    if not resource["apiVersion"].startswith(OTHERS):
        kubernetes_validate.validate(resource, KUBERNETES, strict=True)


def of_kind(resources: list[Resource], kind: str) -> list[Resource]:
    """The resources of one kind."""
    return [each for each in resources if each["kind"] == kind]


def pod_of(resources: list[Resource]) -> Resource:
    """The pod that the chart's only workload runs."""
    [workload] = of_kind(resources, "StatefulSet")
    pod: Resource = workload["spec"]["template"]["spec"]
    return pod


def expanded(word: str, environ: Mapping[str, str]) -> str:
    """A word of a command after Kubernetes has replaced what it holds of ``$(NAME)``."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else environ.get(name, found[0])

    return re.sub(r"\$\$|\$\(([A-Za-z_.][-A-Za-z0-9_.]*)\)", value, word)


def words_of(resources: list[Resource], environ: Mapping[str, str]) -> list[str]:
    """The words with which the balancer's container is started."""
    [container] = pod_of(resources)["containers"]
    return [expanded(word, environ) for word in container["args"]]
