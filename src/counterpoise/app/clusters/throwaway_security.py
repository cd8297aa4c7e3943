"""TLS certificates and tokens for one embedded cluster, removed with it."""

import secrets
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoise.security.client import PACKAGE
from counterpoise.security.options import PROVIDER_PACKAGE

if TYPE_CHECKING:
    from counterpoise.app.clusters.throwaway import ThrowAwayAuthority

ADMIN = "admin"
"""The role that may do everything."""
PROVIDERS = f"{PROVIDER_PACKAGE}AuthenticationProvider"


class ThrowAwaySecurity:
    """The certificates and tokens of one test cluster, and its brokers' settings for them."""

    def __init__(self, *, tls: bool, tokens: bool) -> None:
        self.settings: dict[str, object] = {}
        """The brokers' settings for TLS and tokens, under broker.conf's names."""
        self._authority: ThrowAwayAuthority | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="counterpoise-security-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._secret = secrets.token_bytes(64) if tokens else None
        if tls:
            self._make_certificates()
        if tokens:
            self._ask_for_tokens()

    @property
    def trust_certs(self) -> str:
        """The path of the authority's certificate, which clients have to trust."""
        return str(self._of_authority().certificate)

    def client_certificate(self, role: str) -> tuple[str, str]:
        """Issue a client certificate for a role; return its path, and the path of its key."""
        pair = self._of_authority().client(role)
        return str(pair.certificate), str(pair.key)

    def token(self, role: str, *, expires_in_s: float | None = None) -> str:
        """Make a token (JWT) for a role, valid for ``expires_in_s`` seconds; None: for ever.

        Raises RuntimeError if the cluster was started without tokens.
        """
        if self._secret is None:
            raise RuntimeError("the cluster believes no tokens: start it with tokens=True")
        import jwt

        claims: dict[str, object] = {"sub": role}
        if expires_in_s is not None:
            claims["exp"] = time.time() + expires_in_s
        return jwt.encode(claims, self._secret, algorithm="HS512")

    @property
    def admin_options(self) -> list[str]:
        """Options with which ``counterpoise`` accesses this cluster in the role `ADMIN`."""
        options = []
        if self._secret is not None:
            token = self._folder / "admin.token"
            token.touch(mode=0o600)
            token.write_text(self.token(ADMIN), "utf-8")
            options += ["--auth-plugin", "token", "--auth-params", token.as_uri()]
        if self._authority is not None:
            options += ["--tls-trust-cert-path", self.trust_certs]
        return options

    def _ask_for_tokens(self) -> None:
        key = self._folder / "secret.key"
        key.touch(mode=0o600)
        key.write_bytes(self._secret or b"")
        methods = ["Token", "Tls"] if self._authority is not None else ["Token"]
        self.settings |= {
            "authenticationEnabled": True,
            "authenticationProviders": [f"{PROVIDERS}{each}" for each in methods],
            "tokenSecretKey": key.as_uri(),
            "authorizationEnabled": True,
            "superUserRoles": ADMIN,
            "brokerClientAuthenticationPlugin": f"{PACKAGE}AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{self.token(ADMIN)}",
        }

    def _make_certificates(self) -> None:
        # Imported here: most embedded clusters need no certificates.
        from counterpoise.app.clusters.throwaway import ThrowAwayAuthority

        self._authority = ThrowAwayAuthority(self._folder)
        pair = self._authority.server()
        self.settings |= {
            "brokerServicePortTls": 0,
            "webServicePortTls": 0,
            "tlsCertificateFilePath": str(pair.certificate),
            "tlsKeyFilePath": str(pair.key),
            "tlsTrustCertsFilePath": str(self._authority.certificate),
            "brokerClientTrustCertsFilePath": str(self._authority.certificate),
            "brokerClientTlsEnabled": True,
        }

    def _of_authority(self) -> "ThrowAwayAuthority":
        if self._authority is None:
            raise RuntimeError("the cluster has no certificates: start it with tls=True")
        return self._authority
