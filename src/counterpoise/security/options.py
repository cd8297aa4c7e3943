"""Settings of TLS, authentication and authorization under Pulsar's own names."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import option

AUTHORIZER = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"
PROVIDER_PACKAGE = "org.apache.pulsar.broker.authentication."


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS of a broker's ports: its certificate, and which clients may connect."""

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
        why="whether clients with untrusted certificates may connect; no role is ever "
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


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """Who has to say who they are, and how that is believed."""

    enabled: bool = option(
        False,
        conf="authenticationEnabled",
        why="whether clients have to prove who they are, on both ports",
    )
    providers: tuple[str, ...] = option(
        (),
        conf="authenticationProviders",
        why=f"{PROVIDER_PACKAGE}AuthenticationProviderToken, …Tls and …Basic: what is believed",
    )
    anonymous_role: str = option(
        "",
        conf="anonymousUserRole",
        why="the role of those who show nothing; blank: they are refused",
    )
    refresh_check_s: int = option(
        60,
        conf="authenticationRefreshCheckSeconds",
        unit="s",
        low=1,
        why="how often connections are looked at for credentials that have expired",
    )
    authenticate_original: bool = option(
        False,
        conf="authenticateOriginalAuthData",
        why="whether what a proxy's client showed to the proxy is believed only once it is "
        "examined here, too",
    )
    authenticate_metrics: bool = option(
        False,
        conf="authenticateMetricsEndpoint",
        why="whether /metrics is for those alone who prove who they are",
    )
    secret_key: str = option(
        "",
        conf="tokenSecretKey",
        secret=True,
        why="the key that tokens are signed with: file:///path, data:;base64,… or a path",
    )
    public_key: str = option(
        "",
        conf="tokenPublicKey",
        why="the public half of the key that tokens are signed with, likewise",
    )
    public_algorithm: str = option(
        "RS256",
        conf="tokenPublicAlg",
        choices=("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"),
        why="what kind of key tokenPublicKey is",
    )
    role_claim: str = option(
        "sub", conf="tokenAuthClaim", why="the claim of a token that holds the role"
    )
    audience_claim: str = option(
        "",
        conf="tokenAudienceClaim",
        why="the claim that has to name this cluster (tokenAudience); blank: none",
    )
    audience: str = option(
        "", conf="tokenAudience", why="how tokens name this cluster (tokenAudienceClaim)"
    )
    clock_skew_s: int = option(
        0,
        conf="tokenAllowedClockSkewSeconds",
        unit="s",
        low=0,
        why="how long after its end a token is still believed, since clocks differ",
    )
    password_file: str = option(
        "",
        conf="basicAuthConf",
        secret=True,
        why="users and hashed passwords as htpasswd writes them: file:///path, data:;base64,… or "
        "a path",
    )


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """Who may do what."""

    enabled: bool = option(
        False,
        conf="authorizationEnabled",
        why="whether roles may do only what they were granted, on both ports",
    )
    provider: str = option(
        AUTHORIZER,
        conf="authorizationProvider",
        why="by which rules; Pulsar's own are the only ones here",
    )
    super_users: tuple[str, ...] = option(
        (), conf="superUserRoles", dynamic=True, why="the roles that may do everything"
    )
    proxies: tuple[str, ...] = option(
        (),
        conf="proxyRoles",
        why="the roles of proxies, which act for others: both have to be allowed",
    )
    wildcards: bool = option(
        False,
        conf="authorizationAllowWildcardsMatching",
        why="whether a role in a permission may begin or end with *, and so stand for many",
    )


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a broker proves to the others who it is, and how it knows them."""

    plugin: str = option(
        "",
        conf="brokerClientAuthenticationPlugin",
        why="how this broker proves to other brokers who it is: "
        "org.apache.pulsar.client.impl.auth.AuthenticationToken, …Tls or …Basic",
    )
    parameters: str = option(
        "",
        conf="brokerClientAuthenticationParameters",
        secret=True,
        why="with what: token:…, file:///path of a token, tlsCertFile:…,tlsKeyFile:… or "
        '{"userId":…,"password":…}',
    )
    tls: bool = option(
        False,
        conf="brokerClientTlsEnabled",
        why="whether brokers talk to each other by TLS; always, where they have no plain ports",
    )
    trust: str = option(
        "",
        conf="brokerClientTrustCertsFilePath",
        why="the authorities whose certificates other brokers may show, as a PEM file; blank: "
        "those that the machine trusts",
    )
    allow_insecure: bool = option(
        False,
        conf="tlsAllowInsecureConnection",
        why="whether untrusted certificates of brokers are accepted",
    )
    verify_host: bool = option(
        False,
        conf="tlsHostnameVerificationEnabled",
        why="whether a broker's certificate has to be for the host it is reached at",
    )
    certificate: str = option(
        "",
        conf="brokerClientCertificateFilePath",
        why="the certificate this broker shows to others by TLS, as a PEM file",
    )
    key: str = option("", conf="brokerClientKeyFilePath", why="the private key of that certificate")
