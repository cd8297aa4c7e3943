"""What Apache tests its Python client's TLS, tokens and passwords with passes on our brokers."""

import json
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise import Cluster
from tests.client import own_suite
from tests.security.tokens import PACKAGE, SECRET_SETTING, token

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(
        not own_suite.is_there(),
        reason="apache/pulsar-client-python is not here: "
        "`python -m tests.client.own_suite --fetch` fetches it",
    ),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster as the suite's own ``test-conf/standalone-ssl.conf`` describes it."""
    files = own_suite.SUITE / "tests" / "test-conf"
    config = {
        # The suite's certificate is for this name.
        "advertisedAddress": "localhost",
        "brokerServicePortTls": 0,
        "webServicePortTls": 0,
        "tlsCertificateFilePath": str(files / "broker-cert.pem"),
        "tlsKeyFilePath": str(files / "broker-key.pem"),
        "tlsTrustCertsFilePath": str(files / "cacert.pem"),
        "anonymousUserRole": "anonymous",
        "authenticationEnabled": True,
        "authenticationProviders": [
            f"{PACKAGE}AuthenticationProvider{each}" for each in ("Tls", "Token", "Basic")
        ],
        "basicAuthConf": str(files / ".htpasswd"),
        "tokenSecretKey": SECRET_SETTING,
        "authorizationEnabled": True,
        "superUserRoles": "localhost,superUser,admin",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationTls",
        "brokerClientAuthenticationParameters": (
            f"tlsCertFile:{files}/client-cert.pem,tlsKeyFile:{files}/client-key.pem"
        ),
        "brokerClientTrustCertsFilePath": str(files / "cacert.pem"),
    }
    # One broker, as the suite has: this client shows nothing where HTTP sends it on.
    with Cluster(brokers=1, config=config) as cluster:
        prepare(cluster, files)
        yield cluster


def prepare(cluster: Cluster, files: Path) -> None:
    """The namespaces and permissions that the suite expects, made by TLS as ``admin``."""
    context = ssl.create_default_context(cafile=str(files / "cacert.pem"))
    context.load_cert_chain(files / "client-cert.pem", files / "client-key.pem")
    grants = {"token-principal": "private/auth", "anonymous": "public/default"}
    for method, path, body in (
        ("PUT", "tenants/private", {"allowedClusters": ["standalone"]}),
        ("PUT", "namespaces/private/auth", None),
        *(
            ("POST", f"namespaces/{namespace}/permissions/{role}", ["produce", "consume"])
            for role, namespace in grants.items()
        ),
    ):
        request = urllib.request.Request(
            f"{cluster.admin_url_tls}/admin/v2/{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, context=context, timeout=15).close()


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token.txt"
    file.write_text(token("token-principal"))
    return file


@pytest.mark.parametrize("case", own_suite.CASES)
def test_a_case_of_apaches_own_suite(cluster: Cluster, token_file: Path, case: str) -> None:
    first = cluster.brokers[0]
    assert first.service_url_tls is not None
    told = own_suite.run(
        case, first.service_url, first.service_url_tls, first.admin_url, token_file
    )
    assert not told, told
