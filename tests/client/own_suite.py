"""The TLS and authentication cases of the official Python client's own test suite, run on ours.

The suite is Apache's and is not copied here: it is taken from a checkout of
``apache/pulsar-client-python`` that `SUITE` names, and ``python -m tests.client.own_suite --fetch``
brings one there.
"""

import argparse
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.security.tokens import PACKAGE

REPOSITORY = "https://github.com/apache/pulsar-client-python"
SUITE = Path(
    os.environ.get(
        "PULSAR_CLIENT_PYTHON", Path.home() / ".cache" / "counterpoise" / "pulsar-client-python"
    )
)
LIBRARIES = SUITE / "lib"
"""What its tests of schemas import besides."""
CASES = (
    "test_tls_auth",
    "test_tls_auth2",
    "test_tls_auth3",
    "test_auth_junk_params",
    "test_token_auth",
    "test_token_auth_supplier",
    "test_basic_auth",
    "test_basic_auth_method",
    "test_invalid_basic_auth",
    "test_tls_encryption_with_other_auth",
)

_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationTls"

_RUN = """\
import sys, unittest
import pulsar_test as suite
cases = suite.PulsarTest
cases.serviceUrl, cases.serviceUrlTls, cases.adminUrl, suite.TOKEN_PATH = sys.argv[1:5]
found = unittest.TestSuite([cases(sys.argv[5])])
sys.exit(not unittest.TextTestRunner(verbosity=2).run(found).wasSuccessful())
"""


def is_there() -> bool:
    """Whether the suite can be run."""
    return (SUITE / "tests" / "pulsar_test.py").is_file()


def settings(files: Path, passwords: str, secret: str) -> dict[str, object]:
    """A broker as Apache's clients' suites start theirs, with their certificates in ``files``."""
    return {
        # Their certificate is for this name.
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
        "basicAuthConf": passwords,
        "tokenSecretKey": secret,
        "authorizationEnabled": True,
        "superUserRoles": "localhost,superUser,admin",
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": (
            f"tlsCertFile:{files}/client-cert.pem,tlsKeyFile:{files}/client-key.pem"
        ),
        "brokerClientTrustCertsFilePath": str(files / "cacert.pem"),
    }


def prepare(admin_url_tls: str, files: Path) -> None:
    """The namespaces and permissions that the suites expect, made by TLS as ``admin``."""
    grants = {"token-principal": "private/auth", "anonymous": "public/default"}
    change(
        admin_url_tls,
        files,
        ("PUT", "tenants/private", {"allowedClusters": ["standalone"]}),
        ("PUT", "namespaces/private/auth", None),
        *(
            ("POST", f"namespaces/{namespace}/permissions/{role}", ["produce", "consume"])
            for role, namespace in grants.items()
        ),
    )


def change(admin_url_tls: str, files: Path, *changes: tuple[str, str, object]) -> None:
    """Ask for changes by TLS as ``admin``: methods, paths and bodies."""
    context = ssl.create_default_context(cafile=str(files / "cacert.pem"))
    context.load_cert_chain(files / "client-cert.pem", files / "client-key.pem")
    for method, path, body in changes:
        request = urllib.request.Request(
            f"{admin_url_tls}/admin/v2/{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, context=context, timeout=15).close()


def fetch() -> None:
    """Bring the suite to `SUITE`."""
    shutil.rmtree(SUITE, ignore_errors=True)
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", REPOSITORY, str(SUITE)], check=True, timeout=120
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(LIBRARIES)]
    subprocess.run([*pip, "fastavro"], check=True, timeout=600)


def run(case: str, service_url: str, service_url_tls: str, admin_url: str, token: Path) -> str:
    """Run one of the suite's cases in a process of its own; what it printed, empty if it passed."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, service_url, service_url_tls, admin_url, str(token), case],
        cwd=SUITE / "tests",
        env={**os.environ, "PYTHONPATH": str(SUITE / "tests"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch", action="store_true", required=True)
    parser.parse_args()
    fetch()
