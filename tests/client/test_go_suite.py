"""What Apache tests its Go client's TLS, certificates, tokens and passwords with passes here."""

from urllib.parse import urlsplit

import pytest
from passlib.hash import apr_md5_crypt

from counterpoise import Cluster
from tests.client import own_suite
from tests.client.official import go_suite

CASES_AT_LEAST = 19


@pytest.mark.client
@pytest.mark.skipif(
    not go_suite.is_there(),
    reason="the Go client's own suite is not built: `make clients` does it, where Go is installed",
)
def test_apaches_own_suite_of_the_go_client() -> None:
    tokens = go_suite.FILES / "tokens"
    passwords = f"data:,admin:{apr_md5_crypt.hash('123456')}"
    config = own_suite.settings(
        go_suite.FILES / "certs", passwords, (tokens / "secret.key").as_uri()
    )
    with Cluster(brokers=1, config=config) as cluster:
        own_suite.prepare(cluster.admin_url_tls, go_suite.FILES / "certs")
        [broker] = cluster.brokers
        usual = {
            6650: broker.service_url,
            6651: broker.service_url_tls,
            8080: broker.admin_url,
            8443: broker.admin_url_tls,
        }
        ports = {number: urlsplit(str(url)).port or 0 for number, url in usual.items()}
        found = go_suite.run(ports)
    assert {case: failed for case, failed in found.items() if failed} == {}
    assert len(found) >= CASES_AT_LEAST
