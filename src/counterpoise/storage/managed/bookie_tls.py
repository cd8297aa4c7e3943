"""The TLS of connections to bookies, by the settings in broker.conf."""

import ssl
from pathlib import Path
from typing import Final

from counterpoise.names.options import ConfigError
from counterpoise.security.tls import load_certificate, trust
from counterpoise.storage.bookie_client_options import BookieClientOptions

_PROVIDER: Final = BookieClientOptions().tls_provider


class BookieTlsFiles:
    """Makes a TLS context for each connection from PEM files.

    The files are read again each time, since certificates are renewed while a broker runs.
    """

    def __init__(self, options: BookieClientOptions) -> None:
        """Reads the files, so that one that cannot be used is reported at the start."""
        self._options = options
        self.context()

    def context(self) -> ssl.SSLContext:
        """Make the TLS context of the next connection; raises `ConfigError`."""
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # As Java's client, whose hostname verification is off unless it is asked for.
        context.check_hostname = False
        trust(context, "bookkeeperTLSTrustCertsFilePath", options.trust)
        if options.certificate or options.key:
            load_certificate(
                context,
                ("bookkeeperTLSCertificateFilePath", options.certificate),
                ("bookkeeperTLSKeyFilePath", options.key),
                _password(options.key_password_file),
            )
        return context


def bookie_tls(options: BookieClientOptions) -> BookieTlsFiles | None:
    """The TLS of connections to bookies; None where they are not encrypted.

    Raises `ConfigError` for files that cannot be used, and for settings of Pulsar's that are not
    supported here.
    """
    if options.authentication:
        raise ConfigError(
            "bookkeeperClientAuthenticationPlugin",
            f"{options.authentication} is not supported: leave it blank, and let bookies know "
            "brokers by their certificates (bookkeeperTLSClientAuthentication=true, "
            "bookkeeperTLSCertificateFilePath, bookkeeperTLSKeyFilePath)",
        )
    if not options.tls:
        return None
    for name, kind in (
        ("bookkeeperTLSKeyFileType", options.key_type),
        ("bookkeeperTLSTrustCertTypes", options.trust_type),
    ):
        if kind.upper() != "PEM":
            raise ConfigError(
                name, f"{kind} is not supported; convert the store to PEM files, and use PEM"
            )
    if options.tls_provider != _PROVIDER:
        raise ConfigError(
            "bookkeeperTLSProviderFactoryClass",
            f"{options.tls_provider} is not supported; use {_PROVIDER}",
        )
    return BookieTlsFiles(options)


def _password(path: str) -> bytes:
    try:
        return Path(path).read_bytes().strip() if path else b""
    except OSError as error:
        why = f"cannot read {path}: {error.strerror or error}"
        raise ConfigError("bookkeeperTLSKeyStorePasswordPath", why) from None
