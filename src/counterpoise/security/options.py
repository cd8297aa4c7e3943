"""Settings of TLS under Pulsar's own names."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What a broker shows to whoever connects by TLS, and whom it lets in."""

    certificate: str = option(
        "",
        conf="tlsCertificateFilePath",
        why="the broker's certificate, and those between it and the authority, as a PEM file",
    )
    key: str = option(
        "", conf="tlsKeyFilePath", why="the private key of that certificate, as a PEM file"
    )
    trust: str = option(
        "",
        conf="tlsTrustCertsFilePath",
        why="the authorities whose client certificates are trusted, as a PEM file; blank: those "
        "that the machine trusts",
    )
    require_client_certificate: bool = option(
        False,
        conf="tlsRequireTrustedClientCertOnConnect",
        why="whether who shows no trusted certificate is refused while it connects",
    )
    allow_insecure: bool = option(
        False,
        conf="tlsAllowInsecureConnection",
        why="whether clients whose certificates nobody vouches for may connect; no role is ever "
        "taken from such a certificate",
    )
    protocols: tuple[str, ...] = option(
        (), conf="tlsProtocols", why="such as TLSv1.3,TLSv1.2; blank: these two"
    )
    ciphers: tuple[str, ...] = option(
        (),
        conf="tlsCiphers",
        why="the ciphers for TLS 1.2, under Java's names or OpenSSL's; blank: OpenSSL's choice",
    )
    web_protocols: tuple[str, ...] = option(
        (), conf="webServiceTlsProtocols", why="the same for the admin API"
    )
    web_ciphers: tuple[str, ...] = option(
        (), conf="webServiceTlsCiphers", why="the same for the admin API"
    )
    refresh_s: int = option(
        300,
        conf="tlsCertRefreshCheckDurationSec",
        unit="s",
        low=0,
        why="how often the files are looked at for newer certificates; 0: for each connection",
    )
