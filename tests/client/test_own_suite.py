"""What Apache tests its Python client's TLS, tokens and passwords with passes on our brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise import Cluster
from tests.client import own_suite
from tests.security.tokens import SECRET_SETTING, token

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
    config = own_suite.settings(files, str(files / ".htpasswd"), SECRET_SETTING)
    # One broker, as the suite has: this client shows nothing where HTTP sends it on.
    with Cluster(brokers=1, config=config) as cluster:
        own_suite.prepare(cluster.admin_url_tls, files)
        yield cluster


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token.txt"
    file.write_text(token("token-principal"))
    return file


@pytest.mark.parametrize("case", own_suite.CASES)
def test_a_case_of_apaches_own_suite(cluster: Cluster, token_file: Path, case: str) -> None:
    first = cluster.brokers[0]
    assert first.service_url_tls is not None
    failures = own_suite.run(
        case, first.service_url, first.service_url_tls, first.admin_url, token_file
    )
    assert not failures, failures
