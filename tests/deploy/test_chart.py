"""The chart of the balancer, rendered by Helm: schemas, options, probes, and a run of it."""

import argparse
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise import Cluster
from counterpoise.app.arguments.rules import refuse_idle
from counterpoise.app.main import full_parser
from tests.deploy.helm import (
    ABSENT,
    CHART,
    ROOT,
    RefusedValuesError,
    Resource,
    helm,
    of_kind,
    pod_of,
    render,
    run_helm,
    words_of,
)
from tests.ports import free_ports
from tests.waiting import found_soon

pytestmark = pytest.mark.skipif(helm() is None, reason=ABSENT)

LEAST: Mapping[str, object] = {"adminUrl": "http://pulsar-broker:8080"}
ALL: Mapping[str, object] = {
    "adminUrl": "https://broker-0:8443,https://broker-1:8443",
    "execute": True,
    "auth": {"method": "token", "existingSecret": "balancer-token", "tokenKey": "jwt"},
    "tls": {"existingSecret": "authorities", "verifyHostname": True},
    "history": {
        "uri": "s3://bucket/history",
        "s3": {"existingSecret": "keys", "region": "eu-west-1", "endpointUrl": "http://minio:9000"},
    },
    "strategy": "ThresholdShedder",
    "placement": "LeastUsage",
    "interval": "2s",
    "decideEvery": "30s",
    "gracePeriod": "5m",
    "thrashSpan": "1h",
    "settings": {"loadBalancerBrokerThresholdShedderPercentage": "10"},
    "conf": "loadBalancerSheddingEnabled=false\n",
    "rules": {
        "maxMovesARound": 2,
        "maxMovesAnHour": 20,
        "maxLoadARound": "10%",
        "maxLoadAnHour": "30%",
        "window": "01:00-05:00",
        "leaveAlone": ["public/payments", "public/default"],
    },
    "spark": {
        "master": "k8s://https://kubernetes.default.svc",
        "executorImage": "spark-with-counterpoise:1",
        "conf": {"spark.executor.instances": "2"},
    },
    "notify": {
        "existingSecret": "webhook",
        "signingKey": "signing",
        "format": "slack",
        "link": "https://console.example/",
        "cluster": "east",
    },
    "extraArgs": ["--max-moves-a-round=3"],
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/b"}},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {}}], "egress": [{}]},
    "podDisruptionBudget": {"enabled": True},
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "x"},
    "priorityClassName": "high",
    "nodeSelector": {"zone": "1"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
SECRETS = {"NOTIFY_URL": "https://hooks.example/T0/$(HOME)", "POD_NAME": "pulsar-east-0"}


def parsed(resources: list[Resource]) -> argparse.Namespace:
    """What the program makes of the rendered command."""
    found = full_parser().parse_args(words_of(resources, SECRETS))
    assert found.verb == "balance"
    if not found.execute:
        refuse_idle(found, found.idle_in_dry_run, "a dry run has no use for it")
    refuse_idle(found, found.idle_without_plan, "there is no plan")
    return found


def test_the_defaults_make_a_dry_run_on_a_volume_with_no_rights() -> None:
    resources = render(LEAST)
    found, pod = parsed(resources), pod_of(resources)
    assert not found.execute
    assert found.watchdog
    assert found.admin_url == LEAST["adminUrl"]
    [container], [claim] = (
        pod["containers"],
        of_kind(resources, "StatefulSet")[0]["spec"]["volumeClaimTemplates"],
    )
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert Path(found.history).is_relative_to(mounts[claim["metadata"]["name"]])
    assert pod["automountServiceAccountToken"] is False
    assert not of_kind(resources, "Role")
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"]


def test_every_value_reaches_the_program() -> None:
    resources = render(ALL)
    found = parsed(resources)
    assert found.execute
    assert (found.strategy, found.placement) == ("ThresholdShedder", "LeastUsage")
    assert (found.interval, found.decide_every, found.grace_period) == (2.0, 30.0, 300.0)
    assert found.thrash_span == 3600.0
    assert (found.max_moves_a_round, found.max_moves_an_hour) == (3, 20)
    assert (found.max_load_a_round, found.max_load_an_hour) == (0.1, 0.3)
    assert (found.window, found.leave_alone) == ((60, 300), {"public/payments", "public/default"})
    assert found.notify == SECRETS["NOTIFY_URL"]
    assert (found.auth_plugin, found.tls_enable_hostname_verification) == ("token", True)
    assert "spark.kubernetes.driver.pod.name=pulsar-east-0" in found.spark_conf
    assert "spark.executorEnv.AWS_REGION=eu-west-1" in found.spark_conf
    spec = of_kind(resources, "StatefulSet")[0]["spec"]
    assert "volumeClaimTemplates" not in spec
    mounted = {each["mountPath"] for each in pod_of(resources)["containers"][0]["volumeMounts"]}
    files = (found.conf, found.tls_trust_cert_path, str(found.notify_secret_file))
    for file in (*files, found.auth_params.removeprefix("file://")):
        assert str(Path(file).parent) in mounted
    names = {(each["kind"], each["metadata"]["name"]) for each in resources}
    assert len(names) == len(resources) == 12


def test_each_pod_and_service_that_is_named_is_there() -> None:
    resources = render(ALL)
    labels = of_kind(resources, "StatefulSet")[0]["spec"]["template"]["metadata"]["labels"]
    for kind in ("Service", "NetworkPolicy", "PodDisruptionBudget"):
        for each in of_kind(resources, kind):
            spec = each["spec"]
            chosen = spec.get("podSelector", spec.get("selector", {}))
            assert (chosen.get("matchLabels", chosen)).items() <= labels.items()
    [monitor] = of_kind(resources, "ServiceMonitor")
    metrics = [each for each in of_kind(resources, "Service") if "clusterIP" not in each["spec"]]
    assert (
        monitor["spec"]["selector"]["matchLabels"].items()
        <= metrics[0]["metadata"]["labels"].items()
    )
    [role], [binding] = of_kind(resources, "Role"), of_kind(resources, "RoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == pod_of(resources)["serviceAccountName"]


def test_the_rules_and_the_dashboard_are_those_of_the_documentation() -> None:
    resources = render(ALL)
    monitoring = ROOT / "docs" / "operations" / "monitoring"
    [rule] = of_kind(resources, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((monitoring / "counterpoise.rules.yml").read_text())
    [board] = [
        each for each in of_kind(resources, "ConfigMap") if "dashboard" in each["metadata"]["name"]
    ]
    assert [*board["data"].values()] == [(monitoring / "balancer-dashboard.json").read_text()]


@pytest.mark.parametrize("values", [LEAST, ALL], ids=["least", "all"])
def test_helm_finds_nothing_to_complain_of(values: Mapping[str, object]) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in run_helm(
        "lint", str(CHART), "--strict", values=values
    )


TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)
HOSTILE = "\"'\n - --execute\n{{ .Values }} $(HOME) $$(HOME) # : & * !x %  \\ \u2028 ü\t"


@settings(max_examples=12, deadline=None)
@given(TEXTS)
def test_no_value_becomes_another_word_of_the_command(text: str) -> None:
    for value in (text, HOSTILE):
        resources = render(
            {
                **LEAST,
                "settings": {"name": value},
                "conf": value,
                "strategy": value,
                "spark": {"conf": {"spark.x": value}},
                "history": {"s3": {"region": value}},
                "podAnnotations": {"a": value},
                "notify": {"existingSecret": "w", "link": value, "cluster": value},
                "extraArgs": [f"--placement={value}"],
            }
        )
        found = parsed(resources)
        assert not found.execute
        assert (found.settings, found.spark_conf) == ([f"name={value}"], [f"spark.x={value}"])
        assert (found.strategy, found.placement) == (value, value)
        assert (found.notify_link, found.notify_cluster) == (value, value)
        [conf] = of_kind(resources, "ConfigMap")
        assert conf["data"] == {"broker.conf": value}
        environ = pod_of(resources)["containers"][0]["env"]
        assert {"name": "AWS_REGION", "value": value} in environ


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"adminUrl": ""}, "adminUrl: name the admin address of any broker"),
        ({"adminUrl": "broker:8080"}, "'/adminUrl'"),
        ({"adminUrl": "http://b --execute"}, "'/adminUrl'"),
        ({"execute": "yes"}, "at '/execute': got string, want boolean"),
        ({"exceute": True}, "additional properties 'exceute' not allowed"),
        ({"history": {"retainDays": 0}}, "at '/history/retainDays': minimum: got 0, want 1"),
        ({"history": {"uri": "/a/path"}}, "'/history/uri'"),
        ({"rules": {"maxMovesAnHour": 1.5}}, "'/rules/maxMovesAnHour'"),
        ({"rules": {"maxMovesAnHour": 5}}, "--max-moves-an-hour changes nothing without execute"),
        ({"settings": {"a": 10}}, "at '/settings/a': got number, want string"),
        ({"settings": {"a=b": "c"}}, "invalid propertyName 'a=b'"),
        ({"auth": {"method": "kerberos"}}, "'/auth/method'"),
        ({"auth": {"method": "token"}}, "auth.existingSecret: method token needs the Secret"),
        ({"auth": {"existingSecret": "s"}}, "auth.existingSecret: it is not used with method none"),
        ({"spark": {"master": "sc://host"}}, "'/spark/master'"),
        ({"spark": {"master": "spark://host:7077"}}, "history.uri: executors outside this pod"),
        ({"spark": {"executorImage": "x"}}, "spark.executorImage: it changes nothing without"),
        ({"metrics": {"port": 80}}, "'/metrics/port'"),
        ({"runAsUser": 0}, "'/runAsUser'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(values: Mapping[str, object], said: str) -> None:
    with pytest.raises(RefusedValuesError, match=re.escape(said)):
        render({**LEAST, **values})


def on_disk(
    resources: list[Resource], secrets: Mapping[str, Mapping[str, str]], root: Path
) -> None:
    """What the pod's volumes hold, below a directory."""
    pod = pod_of(resources)
    maps = {each["metadata"]["name"]: each["data"] for each in of_kind(resources, "ConfigMap")}
    places = {e["name"]: e["mountPath"] for e in pod["containers"][0]["volumeMounts"]}
    for place in places.values():
        (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for volume in pod["volumes"]:
        place = root / places[volume["name"]].lstrip("/")
        for item in volume.get("secret", {}).get("items", ()):
            (place / item["path"]).write_text(secrets[volume["secret"]["secretName"]][item["key"]])
        for name, text in maps.get(volume.get("configMap", {}).get("name"), {}).items():
            (place / name).write_text(text)


def text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return str(response.read(), "utf-8")


def answer(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


@pytest.mark.spark
def test_the_rendered_command_watches_a_cluster_that_asks_for_a_token(tmp_path: Path) -> None:
    port = free_ports()
    with Cluster(brokers=2, tokens=True) as cluster:
        resources = render(
            {
                "adminUrl": cluster.admin_url,
                "auth": {"method": "token", "existingSecret": "balancer", "tokenKey": "jwt"},
                "conf": "loadBalancerSheddingIntervalMinutes=1\n",
                "interval": "500ms",
                "metrics": {"port": port},
                "spark": {"master": "local[1]", "shards": 1},
            }
        )
        on_disk(resources, {"balancer": {"jwt": cluster.security.token("admin")}}, tmp_path)
        [container] = pod_of(resources)["containers"]
        words = words_of(resources, {})
        for mount in (each["mountPath"] for each in container["volumeMounts"]):
            words = [each.replace(mount, f"{tmp_path}{mount}") for each in words]
        balancer = subprocess.Popen(
            [sys.executable, "-m", "counterpoise.app.main", *words],
            env={**os.environ, "HOME": f"{tmp_path}/tmp"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            ready = container["readinessProbe"]["httpGet"]["path"]
            alive = container["startupProbe"]["httpGet"]["path"]
            url = f"http://127.0.0.1:{port}"
            found_soon(lambda: answer(url + alive) == 200, "it listens")
            found_soon(lambda: answer(url + ready) == 200, "it is ready")
            seen = "counterpoise_balancer_brokers 2.0"
            found_soon(lambda: seen in text(f"{url}/metrics"), "it has looked at both brokers")
            balancer.send_signal(signal.SIGTERM)
            said, _ = balancer.communicate(timeout=60)
            assert balancer.returncode == 0, said
            assert "dry run" in said
        finally:
            balancer.kill()
            balancer.wait()
            if balancer.stdout:
                balancer.stdout.close()
