"""Apache's ``pulsar-admin`` against brokers that speak TLS alone and refuse unknown clients."""

from pathlib import Path

from counterpoise import Cluster
from counterpoise.security.client import PACKAGE
from tests.apache_tools import admin_tool, needs_tools


@needs_tools
def test_with_tokens_and_certificates(tmp_path: Path) -> None:
    config = {"brokerServicePort": "", "webServicePort": ""}
    with (
        Cluster(brokers=2, tls=True, tokens=True, config=config) as cluster,
        admin_tool(cluster.admin_url) as admin,
    ):
        trusted = ("--tls-trust-cert-path", cluster.security.trust_certs)

        def by(plugin: str, shown: str) -> tuple[str, ...]:
            named = ("--auth-plugin", f"{PACKAGE}Authentication{plugin}")
            return (*trusted, "--tls-enable-hostname-verification", *named, "--auth-params", shown)

        file = tmp_path / "token"
        file.write_text(cluster.security.token("admin"))
        by_token = by("Token", f"file://{file}")
        assert admin(*by_token, "tenants", "list") == "public\npulsar"
        topic = "persistent://public/default/sealed"
        admin(*by_token, "topics", "create", topic)
        assert admin(*by_token, "topics", "lookup", topic).startswith("pulsar+ssl://")
        certificate, key = cluster.security.client_certificate("admin")
        by_certificate = by("Tls", f"tlsCertFile:{certificate},tlsKeyFile:{key}")
        assert admin(*by_certificate, "brokers", "healthcheck") == "ok"
        for token, expected in (
            (cluster.security.token("admin", expires_in_s=-60), "Authentication required"),
            (cluster.security.token("stranger"), "about operation [LIST_BROKERS] on broker"),
        ):
            worked, said = admin.run(*by("Token", f"token:{token}"), "brokers", "list", "x")
            assert not worked
            assert expected in said
