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
    """The private key of that certificate, as a PEM file."""
    key_password_file: str = option("", "bookkeeperTLSKeyStorePasswordPath")
    """A file with the password of that key; blank: it has none."""
    key_type: str = option("PEM", "bookkeeperTLSKeyFileType")
    """What kind of files these are: PEM is supported."""
    trust: str = option("", "bookkeeperTLSTrustCertsFilePath")
    """The authorities that signed the bookies' certificates, as a PEM file; blank: those that the
    machine trusts."""
    trust_type: str = option("PEM", "bookkeeperTLSTrustCertTypes")
    """What kind of file that is: PEM is supported."""
    tls_provider: str = option(
        "org.apache.bookkeeper.tls.TLSContextFactory", "bookkeeperTLSProviderFactoryClass"
    )
    """The Java class that makes TLS contexts; only the default is supported."""
    authentication: str = option("", "bookkeeperClientAuthenticationPlugin")
    """The Java class by which a client authenticates, such as SASL's; none is supported."""
