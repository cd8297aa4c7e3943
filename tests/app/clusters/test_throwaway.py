"""Certificates that are made for a test cluster."""

import datetime as dt
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from counterpoise.app.clusters.throwaway import VALID_FOR, ThrowAwayAuthority


def test_a_key_is_its_owners_alone_and_a_certificate_is_for_a_week(tmp_path: Path) -> None:
    authority = ThrowAwayAuthority(tmp_path)
    pair = authority.client("ann", unit="0:ann")
    assert pair.key.stat().st_mode & 0o077 == 0
    made = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    made.verify_directly_issued_by(issuer)
    named = made.subject.get_attributes_for_oid
    [role], [unit] = named(NameOID.COMMON_NAME), named(NameOID.ORGANIZATIONAL_UNIT_NAME)
    assert (role.value, unit.value) == ("ann", "0:ann")
    now = dt.datetime.now(dt.UTC)
    hour = dt.timedelta(hours=1)
    assert now - 2 * hour < made.not_valid_before_utc < now, "clocks of machines differ"
    assert VALID_FOR - hour < made.not_valid_after_utc - now <= VALID_FOR
    hosts = x509.load_pem_x509_certificate(authority.server().certificate.read_bytes())
    names = hosts.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
