"""What makes an embedded cluster secure for a test: made when it is, gone when it is."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoise.app.throwaway import ThrowAwayAuthority


class ThrowAwaySecurity:
    """Certificates of one cluster, and the settings that make its brokers use them."""

    def __init__(self, *, tls: bool) -> None:
        self.settings: dict[str, object] = {}
        """What the brokers are started with, under broker.conf's names."""
        self._authority: ThrowAwayAuthority | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="counterpoise-security-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        if tls:
            self._make_certificates()

    @property
    def trust_certs(self) -> str:
        """The file with the authority that clients have to trust."""
        return str(self._of_authority().certificate)

    def client_certificate(self, role: str) -> tuple[str, str]:
        """The files with a certificate for a role, and with its key."""
        pair = self._of_authority().client(role)
        return str(pair.certificate), str(pair.key)

    def _make_certificates(self) -> None:
        # Imported here: most embedded clusters need no certificates.
        from counterpoise.app.throwaway import ThrowAwayAuthority

        self._authority = ThrowAwayAuthority(self._folder)
        pair = self._authority.server()
        self.settings |= {
            "brokerServicePortTls": 0,
            "webServicePortTls": 0,
            "tlsCertificateFilePath": str(pair.certificate),
            "tlsKeyFilePath": str(pair.key),
            "tlsTrustCertsFilePath": str(self._authority.certificate),
        }

    def _of_authority(self) -> ThrowAwayAuthority:
        if self._authority is None:
            raise RuntimeError("the cluster has no certificates: start it with tls=True")
        return self._authority
