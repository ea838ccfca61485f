"""An authority of one's own, and what it issues: certificates as Ottla, etcd and Kafka take them.

Keys are on the curve P-256. The moment is an argument; keys and serial numbers are drawn.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED: Final = timedelta(minutes=5)
"""Clocks of other machines may be behind by so much."""
ORGANIZATION: Final = "Ottla"
COMMON_NAME_LENGTH_MAX: Final = 64
"""Characters (RFC 5280, ub-common-name)."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate with its private key, both in PEM.

    Attributes:
        chain: the certificate; an authority's own for itself.
    """

    chain: bytes
    key: bytes = field(repr=False)

    @property
    def certificate(self) -> x509.Certificate:
        """The certificate."""
        return x509.load_pem_x509_certificate(self.chain)

    @property
    def is_consistent(self) -> bool:
        """Whether the key is the certificate's."""
        key = serialization.load_pem_private_key(self.key, password=None)
        return key.public_key() == self.certificate.public_key()


@dataclass(frozen=True, slots=True)
class Subject:
    """What a certificate says of its holder.

    Attributes:
        common_name: by which Kafka's listeners and etcd know the holder.
        names: of its hosts and of itself: DNS names and IP addresses.
    """

    common_name: str
    names: tuple[str, ...] = ()


def new_authority(common_name: str, now: datetime, valid: timedelta) -> IssuedCertificate:
    """Return an authority that signs itself, and no other authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _begun(name, name, key, now, valid)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(identifier, critical=False)
    return IssuedCertificate(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def issue(authority: IssuedCertificate, subject: Subject, now: datetime, valid: timedelta) -> IssuedCertificate:
    """Return a certificate for both ends of connections, with its key; it ends no later than the authority."""
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = authority.certificate
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name)])
    builder = _begun(name, issuer.subject, key, now, min(valid, issuer.not_valid_after_utc - now))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
    )
    if subject.names:
        builder = builder.add_extension(x509.SubjectAlternativeName(_general_names(subject.names)), critical=False)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )
    return IssuedCertificate(_pem(builder.sign(signer, hashes.SHA256())), _key_pem(key))


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, valid: timedelta
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=min(now, now + valid) - BACKDATED,
        not_valid_after=now + valid,
    )


def _general_names(names: Sequence[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
