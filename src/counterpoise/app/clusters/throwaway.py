"""Makes TLS certificates for a test cluster, from a certificate authority of its own."""

import datetime as dt
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID_FOR = dt.timedelta(days=7)
HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class ThrowAwayAuthority:
    """A certificate authority made for one test cluster."""

    def __init__(self, folder: Path, name: str = "throw-away authority") -> None:
        """``folder`` gets the files of the authority's certificate, and of those that it issues."""
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = (
            _blank(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "authority.pem"
        """The certificate that clients have to trust."""
        self.certificate.write_bytes(_pem(self._certificate))

    def server(self, name: str = "broker", hosts: tuple[str, ...] = HOSTS) -> KeyPair:
        """Issue a certificate for a server with these host names or addresses."""
        alternatives = x509.SubjectAlternativeName([_host(each) for each in hosts])
        return self._issue(name, alternatives)

    def client(self, role: str, unit: str = "") -> KeyPair:
        """Issue a client certificate whose common name is the role.

        ``unit`` is its organizational unit, from which bookies read a client's role (``0:role``).
        """
        return self._issue(role, None, unit)

    def _issue(
        self, name: str, alternatives: x509.SubjectAlternativeName | None, unit: str = ""
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _blank(_name(name, unit), self._name, key.public_key())
        if alternatives is not None:
            certificate = certificate.add_extension(alternatives, critical=False)
        made = KeyPair(self._folder / f"{name}-cert.pem", self._folder / f"{name}-key.pem")
        made.certificate.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))
        made.key.touch(mode=0o600)
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return made


def _blank(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # An hour ago, since the clocks of machines differ.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + VALID_FOR)
    )


def _name(text: str, unit: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, text)]
    if unit:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name(attributes)


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
