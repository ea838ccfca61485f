"""Settings of a listener's TLS, what is wrong with them, and the context and the names that certificates give."""

import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from ottla_broker.config import BrokerConfig
from ottla_broker.tls.contexts import distinguished_name, principal_of, server_context
from ottla_broker.tls.tls_settings import TlsSettings, tls_settings
from ottla_core.config import validated
from ottla_core.errors import ConfigurationError
from ottla_core.principal import ANONYMOUS, Principal
from ottla_core.principal_mapping import parse_mapping_rules
from tests.support.servers.certificates import Certificates

PASSWORD = "a-marker-that-no-message-has"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "certificates")


def pem(certificates: Certificates, *names: str) -> str:
    return "".join(certificates.path(name).read_text() for name in names)


def of(values: dict[str, str]) -> TlsSettings:
    return tls_settings("SSL", values)


def keystore(certificates: Certificates, directory: Path) -> Path:
    """Returns a PKCS#12 file with the server's certificate and key, and the authority."""
    file = directory / "server.p12"
    command = ["openssl", "pkcs12", "-export", "-out", file, "-passout", f"pass:{PASSWORD}"]
    command += ["-in", certificates.path("server.pem"), "-inkey", certificates.path("server.key")]
    command += ["-certfile", certificates.path("ca.pem")]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return file


def test_certificates_come_from_files_text_and_pkcs12(certificates: Certificates, tmp_path: Path) -> None:
    together = tmp_path / "own.pem"
    together.write_text(pem(certificates, "server.key", "server.pem"))
    p12 = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(keystore(certificates, tmp_path))}
    text = {
        "ssl.keystore.certificate.chain": pem(certificates, "server.pem"),
        "ssl.keystore.key": pem(certificates, "server.key"),
    }
    one_line = {key: value.strip().replace("\n", " ") for key, value in text.items()}
    escaped = {key: value.replace("\n", "\\n") for key, value in text.items()}
    for values in (
        {"ssl.keystore.location": str(together)},
        {**p12, "ssl.keystore.password": PASSWORD},
        text,
        one_line,
        escaped,
    ):
        assert server_context(of(values)).verify_mode is ssl.CERT_NONE
    trusting = {**text, "ssl.client.auth": "required", "ssl.truststore.certificates": pem(certificates, "ca.pem")}
    assert server_context(of(trusting)).verify_mode is ssl.CERT_REQUIRED
    trusting_p12 = {
        **text,
        "ssl.client.auth": "requested",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": p12["ssl.keystore.location"],
        "ssl.truststore.password": PASSWORD,
    }
    context = server_context(of(trusting_p12))
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "ssl.keystore.location"),
        ({"ssl.keystore.location": "/nowhere.pem"}, "/nowhere.pem"),
        ({"ssl.keystore.location": "/a.jks"}, "keytool -importkeystore -srckeystore /a.jks"),
        ({"ssl.keystore.location": "/a", "ssl.keystore.type": "JKS"}, "PKCS12"),
        ({"ssl.keystore.location": "/a", "ssl.keystore.type": "BKS"}, "ssl.keystore.type=BKS"),
        ({"ssl.keystore.certificate.chain": "x"}, "ssl.keystore.key"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.key": PASSWORD}, "cannot be used"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.location": "/a"}, "two sources"),
        ({"ssl.keystore.location": "OWN", "ssl.client.auth": "required"}, "ssl.truststore.location"),
        ({"ssl.keystore.location": "OWN", "ssl.client.auth": "perhaps"}, "ssl.client.auth=perhaps"),
        ({"ssl.keystore.location": "OWN", "ssl.enabled.protocols": "TLSv1"}, "TLSv1"),
        ({"ssl.keystore.location": "OWN", "ssl.cipher.suites": "ROT13"}, "ROT13"),
        ({"ssl.keystore.location": "OWN", "ssl.truststore.certificates": "x"}, "ssl.truststore.certificates"),
        (
            {"ssl.keystore.location": "OWN", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": PASSWORD},
            "not PKCS12",
        ),
    ],
)
def test_what_cannot_be_used_is_named_without_a_secret(
    certificates: Certificates, tmp_path: Path, values: dict[str, str], named: str
) -> None:
    own = tmp_path / "own.pem"
    own.write_text(pem(certificates, "server.key", "server.pem"))
    with pytest.raises(ConfigurationError) as caught:
        server_context(of({key: value.replace("OWN", str(own)) for key, value in values.items()}))
    assert named in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_the_settings_of_a_listener_come_before_the_brokers(certificates: Certificates, tmp_path: Path) -> None:
    values = {
        "ssl.keystore.location": "/for-all.pem",
        "ssl.client.auth": "none",
        "listener.name.ssl.ssl.keystore.location": "/of-one.pem",
    }
    assert of(values).own.location == "/of-one.pem"
    assert tls_settings("OTHER", values).own.location == "/for-all.pem"


def broker_config(**changed: str) -> BrokerConfig:
    values = {"node.id": "1", "log.dirs": "/tmp/none", "listeners": "SSL://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"}
    return validated(BrokerConfig, {**values, **{key.replace("_", "."): value for key, value in changed.items()}}, {})


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, "the listener SSL speaks TLS and has no certificate"),
        ({"ssl_keystore_locaton": "/a"}, "ssl.keystore.locaton is no setting"),
        ({"listener_name_ssl_ssl_key": "/a"}, "ssl.key is no setting"),
        ({"listeners": "SASL_SSL://127.0.0.1:1"}, "SASL_SSL"),
    ],
)
def test_a_broker_refuses_settings_that_mean_nothing(changed: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        broker_config(**changed)


def test_brokers_fetch_by_the_listener_that_is_named_or_the_first_without_tls() -> None:
    assert broker_config(ssl_keystore_location="/a").inter_broker_listener == "PLAINTEXT"
    named = broker_config(ssl_keystore_location="/a", inter_broker_listener_name="ssl")
    assert named.inter_broker_listener == "SSL"


def test_names_are_printed_as_java_prints_them() -> None:
    """The expected texts are what `javax.security.auth.x500.X500Principal.getName` returns for these names."""
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "CZ"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Ottla, Inc."),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c", _type=x509.name._ASN1Type.IA5String),
            x509.NameAttribute(NameOID.COMMON_NAME, "#one+two"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, " sp=ace; "),
        ]
    )
    assert (
        distinguished_name(name)
        == r"OU=\ sp\=ace\;\ ,CN=\#one\+two,1.2.840.113549.1.9.1=#16056140622e63,O=Ottla\, Inc.,C=CZ"
    )


def test_a_certificate_names_a_principal(certificates: Certificates) -> None:
    der = ssl.PEM_cert_to_DER_cert(certificates.path("client.pem").read_text())
    assert principal_of(der, parse_mapping_rules("DEFAULT")) == Principal("User", "CN=client")
    assert principal_of(der, parse_mapping_rules("RULE:^CN=(.*)$/$1/U")) == Principal("User", "CLIENT")
    assert principal_of(der, parse_mapping_rules("RULE:^OU=(.*)$/$1/")) is None
    assert principal_of(None, parse_mapping_rules("DEFAULT")) == ANONYMOUS
