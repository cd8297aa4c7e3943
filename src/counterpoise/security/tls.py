"""TLS for the ports of a broker: contexts made from files, and made again when the files change."""

import logging
import re
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from counterpoise.names.callbacks import Clock
from counterpoise.names.options import ConfigError
from counterpoise.security.options import TlsOptions

log = logging.getLogger(__name__)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
HANDSHAKE_S: Final = 10.0
"""How many seconds a client may take for the TLS handshake; until then it only has a socket."""

Fingerprint = tuple[tuple[str, int, int, int] | None, ...]


class TlsPort:
    """The TLS context of one port, which follows changes of its certificate files.

    A server keeps the context that it started with. That context therefore passes each handshake on
    to the latest one.
    """

    def __init__(
        self,
        options: TlsOptions,
        *,
        protocols: Sequence[str],
        ciphers: Sequence[str],
        clock: Clock = time.monotonic,
        wall_clock: Clock = time.time,
    ) -> None:
        """``protocols`` and ``ciphers``: those that are allowed; none: OpenSSL's defaults. Raises
        `ConfigError` for files that cannot be used.
        """
        self._options = options
        self._make: Final[Callable[[], ssl.SSLContext]] = partial(
            server_context, options, protocols, ciphers
        )
        self._clock = clock
        self._wall_clock = wall_clock
        self._refreshed_s = 0
        """When changed files were last loaded, in seconds since 1970; 0 if they never changed."""
        self._seen = _fingerprint(options)
        self._current = self._make()
        self._looked = clock()
        self.context: Final = self._make()
        self.context.sni_callback = self._on_hello

    def _on_hello(
        self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext
    ) -> int | None:
        now = self._clock()
        if now - self._looked >= self._options.refresh_s:
            self._looked = now
            self.refresh()
        connection.context = self._current
        # TLS 1.2 resumes sessions even without tickets, and with them a client certificate that may
        # not be trusted any more. A session from before the change is refused; the client then
        # connects without.
        session = connection.session if connection.session_reused else None
        if session is not None and session.time <= self._refreshed_s:
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        return None

    def refresh(self) -> bool:
        """Load the certificate files if they changed; returns whether a new context is in use.

        Files that cannot be used, such as a key without its new certificate, leave the old one in
        use.
        """
        seen = _fingerprint(self._options)
        if seen == self._seen:
            return False
        try:
            self._current = self._make()
        except ConfigError as error:
            log.warning("the TLS certificates stay as they were: %s", error)
            return False
        self._seen = seen
        self._refreshed_s = int(self._wall_clock())
        log.info("TLS certificates were read again from %s", self._options.certificate)
        return True


def server_context(
    options: TlsOptions, protocols: Sequence[str], ciphers: Sequence[str]
) -> ssl.SSLContext:
    """A TLS context for a server port, by its settings; raises `ConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # With a ticket a client could come back although its authority is not trusted any more.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    restrict(context, protocols, ciphers)
    load_certificate(
        context, ("tlsCertificateFilePath", options.certificate), ("tlsKeyFilePath", options.key)
    )
    if options.allow_insecure:
        if options.require_client_certificate:
            raise ConfigError(
                "tlsAllowInsecureConnection",
                "contradicts tlsRequireTrustedClientCertOnConnect; set one of them",
            )
        return context
    trust(context, "tlsTrustCertsFilePath", options.trust)
    required = options.require_client_certificate
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def restrict(context: ssl.SSLContext, protocols: Sequence[str], ciphers: Sequence[str]) -> None:
    """Restrict a context to TLS versions and ciphers; raises `ConfigError` for unknown ones."""
    versions = []
    for name in protocols or _VERSIONS:
        if name not in _VERSIONS:
            raise ConfigError("tlsProtocols", f"{name!r} is none of {', '.join(_VERSIONS)}")
        versions.append(_VERSIONS[name])
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # The cipher suites of TLS 1.3 are all secure, and cannot be chosen in Python.
    named = [openssl_name(each) for each in ciphers if not each.startswith(("TLS_AES", "TLS_CHA"))]
    if named:
        try:
            context.set_ciphers(":".join(named))
        except ssl.SSLError:
            raise ConfigError("tlsCiphers", f"OpenSSL knows none of {', '.join(ciphers)}") from None


def openssl_name(cipher: str) -> str:
    """OpenSSL's name of a cipher suite: ``AES128-SHA`` for ``TLS_RSA_WITH_AES_128_CBC_SHA``."""
    if not cipher.startswith("TLS_"):
        return cipher
    name = re.sub(r"AES_(\d+)", r"AES\1", cipher.removeprefix("TLS_").replace("_WITH_", "_"))
    name = name.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_CBC", "")
    return name.replace("_", "-").removeprefix("RSA-")


def load_certificate(
    context: ssl.SSLContext,
    certificate: tuple[str, str],
    key: tuple[str, str],
    password: bytes = b"",
) -> None:
    """Load a certificate and key, each as (setting, file), into a context; raises `ConfigError`.

    ``password``: of the key, if it has one.
    """
    for setting, path in (certificate, key):
        if not path:
            raise ConfigError(setting, "is needed for TLS: the path of a PEM file")
        _check_readable(setting, path)
    try:
        # Without this argument OpenSSL would ask for a password at the terminal.
        context.load_cert_chain(certificate[1], key[1], password=lambda: password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            certificate[0], f"{certificate[1]} and the key {key[1]} cannot be used: {error}"
        ) from None


def trust(context: ssl.SSLContext, setting: str, path: str) -> None:
    """Trust a file's authorities, or this machine's without a ``path``. Raises `ConfigError`."""
    if not path:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH
            if context.protocol is ssl.PROTOCOL_TLS_SERVER
            else ssl.Purpose.SERVER_AUTH
        )
        return
    _check_readable(setting, path)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(setting, f"{path} holds no certificates: {error}") from None


def _check_readable(setting: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise ConfigError(setting, f"cannot read {path}: {error.strerror or error}") from None


def _fingerprint(options: TlsOptions) -> Fingerprint:
    return tuple(map(_of_file, (options.certificate, options.key, options.trust)))


def _of_file(path: str) -> tuple[str, int, int, int] | None:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        found = None
    return None if found is None else (path, found.st_mtime_ns, found.st_size, found.st_ino)
