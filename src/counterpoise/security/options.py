"""Settings of TLS, authentication and authorization under Pulsar's own names."""

from dataclasses import dataclass

from counterpoise.names.options import option

AUTHORIZER = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"
PROVIDER_PACKAGE = "org.apache.pulsar.broker.authentication."


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS settings of a broker's ports: its certificate, and which clients may connect."""

    certificate: str = option("", "tlsCertificateFilePath")
    """The broker's certificate, and those between it and the authority, as a PEM file."""
    key: str = option("", "tlsKeyFilePath")
    """The private key of the broker's certificate, as a PEM file."""
    trust: str = option("", "tlsTrustCertsFilePath")
    """The authorities whose client certificates are trusted, as a PEM file; blank: those that the
    machine trusts."""
    require_client_certificate: bool = option(False, "tlsRequireTrustedClientCertOnConnect")
    """Whether a client without a trusted certificate is refused while it connects."""
    allow_insecure: bool = option(False, "tlsAllowInsecureConnection")
    """Whether clients with untrusted certificates may connect; they get no role by these."""
    protocols: tuple[str, ...] = option((), "tlsProtocols")
    """The TLS versions, such as TLSv1.3,TLSv1.2; blank: these two."""
    ciphers: tuple[str, ...] = option((), "tlsCiphers")
    """The ciphers for TLS 1.2, under Java's names or OpenSSL's; blank: OpenSSL's choice."""
    web_protocols: tuple[str, ...] = option((), "webServiceTlsProtocols")
    """The TLS versions of the admin API, such as TLSv1.3,TLSv1.2; blank: these two."""
    web_ciphers: tuple[str, ...] = option((), "webServiceTlsCiphers")
    """The admin API's ciphers for TLS 1.2, by Java's names or OpenSSL's; blank: OpenSSL's."""
    refresh_s: int = option(300, "tlsCertRefreshCheckDurationSec", "s", low=0)
    """How often the certificate files are checked for changes; 0: at each connection."""


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """Settings of authentication: whether clients must authenticate, how, and with which keys."""

    enabled: bool = option(False, "authenticationEnabled")
    """Whether clients have to prove who they are, on both ports."""
    providers: tuple[str, ...] = option((), "authenticationProviders")
    """The accepted methods: org.apache.pulsar.broker.authentication.AuthenticationProviderToken,
    …Tls and …Basic."""
    anonymous_role: str = option("", "anonymousUserRole")
    """The role of clients without credentials; blank: they are refused."""
    refresh_check_s: int = option(60, "authenticationRefreshCheckSeconds", "s", low=1)
    """How often connections are checked for expired credentials."""
    authenticate_original: bool = option(False, "authenticateOriginalAuthData")
    """Whether this broker itself verifies the credentials that a client showed to its proxy."""
    authenticate_metrics: bool = option(False, "authenticateMetricsEndpoint")
    """Whether /metrics requires authentication."""
    secret_key: str = option("", "tokenSecretKey", secret=True)
    """The key that tokens are signed with: file:///path, data:;base64,… or a path."""
    public_key: str = option("", "tokenPublicKey")
    """The public half of the key that signs tokens: file:///path, data:;base64,… or a path."""
    public_algorithm: str = option(
        "RS256",
        "tokenPublicAlg",
        choices=("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"),
    )
    """The signature algorithm of the key that tokenPublicKey names."""
    role_claim: str = option("sub", "tokenAuthClaim")
    """The claim of a token that holds the role."""
    audience_claim: str = option("", "tokenAudienceClaim")
    """The claim that has to name this cluster (tokenAudience); blank: none."""
    audience: str = option("", "tokenAudience")
    """The audience that tokens must name, in the claim ``tokenAudienceClaim``; blank: any."""
    clock_skew_s: int = option(0, "tokenAllowedClockSkewSeconds", "s", low=0)
    """How long after its expiry a token is still accepted, since clocks differ."""
    password_file: str = option("", "basicAuthConf", secret=True)
    """Users and hashed passwords as htpasswd writes them: file:///path, data:;base64,… or path."""


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """Settings of authorization: which roles may do what."""

    enabled: bool = option(False, "authorizationEnabled")
    """Whether roles may do only what they were granted, on both ports."""
    provider: str = option(AUTHORIZER, "authorizationProvider")
    """The authorization provider; Pulsar's own is the only one here."""
    super_users: tuple[str, ...] = option((), "superUserRoles", dynamic=True)
    """The roles that may do everything."""
    proxies: tuple[str, ...] = option((), "proxyRoles")
    """The roles of proxies, which act for clients: both proxy and client must be allowed."""
    wildcards: bool = option(False, "authorizationAllowWildcardsMatching")
    """Whether a role in a permission may begin or end with *, and so stand for many."""
    on_missing_topics: bool = option(False, "allowAclChangesOnNonExistentTopics")
    """Whether permissions on a topic may be changed before it exists."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Settings with which a broker connects to other brokers: its credentials, whom it trusts."""

    plugin: str = option("", "brokerClientAuthenticationPlugin")
    """How this broker authenticates to other brokers:
    org.apache.pulsar.client.impl.auth.AuthenticationToken, …Tls or …Basic."""
    parameters: str = option("", "brokerClientAuthenticationParameters", secret=True)
    """The credentials with which this broker authenticates to other brokers: token:…, file:///path
    of a token, tlsCertFile:…,tlsKeyFile:… or {"userId":…,"password":…}."""
    tls: bool = option(False, "brokerClientTlsEnabled")
    """Whether brokers connect to each other by TLS; always true if they have no plain ports."""
    trust: str = option("", "brokerClientTrustCertsFilePath")
    """The authorities that must have signed other brokers' certificates, as a PEM file; blank:
    those that the machine trusts."""
    allow_insecure: bool = option(False, "tlsAllowInsecureConnection")
    """Whether untrusted certificates of brokers are accepted."""
    verify_host: bool = option(False, "tlsHostnameVerificationEnabled")
    """Whether a broker's certificate must be for the host name used to reach it."""
    certificate: str = option("", "brokerClientCertificateFilePath")
    """The certificate this broker shows to others by TLS, as a PEM file."""
    key: str = option("", "brokerClientKeyFilePath")
    """The private key of the certificate that this broker shows to others, as a PEM file."""
