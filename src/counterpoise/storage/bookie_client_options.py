"""Settings from broker.conf for connections to bookies: TLS and authentication."""

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class BookieClientOptions:
    """How a client of bookies connects, and how it proves who it is."""

    tls: bool = option(False, "bookkeeperTLSClientAuthentication")
    """Whether connections to bookies are encrypted; as in Pulsar this one setting turns TLS on."""
    certificate: str = option("", "bookkeeperTLSCertificateFilePath")
    """The certificate to show to bookies, as a PEM file; blank: none is shown."""
    key: str = option("", "bookkeeperTLSKeyFilePath")
    """The private key of the client's certificate, as a PEM file."""
    key_password_file: str = option("", "bookkeeperTLSKeyStorePasswordPath")
    """A file with the password of the private key; blank: the key has none."""
    key_type: str = option("PEM", "bookkeeperTLSKeyFileType")
    """The format of the certificate and key files; only PEM is supported."""
    trust: str = option("", "bookkeeperTLSTrustCertsFilePath")
    """The authorities that signed the bookies' certificates, as a PEM file; blank: those that the
    machine trusts."""
    trust_type: str = option("PEM", "bookkeeperTLSTrustCertTypes")
    """The format of the file of trusted authorities; only PEM is supported."""
    tls_provider: str = option(
        "org.apache.bookkeeper.tls.TLSContextFactory", "bookkeeperTLSProviderFactoryClass"
    )
    """The Java class that makes TLS contexts; only the default is supported."""
    authentication: str = option("", "bookkeeperClientAuthenticationPlugin")
    """Pulsar's name of a Java class that authenticates the client, such as SASL's; must be blank,
    since none is supported."""
