"""TLS and SASL of our own connections, out of librdkafka's names of the settings."""

import ssl
from pathlib import Path

import pytest

from ottla_core.client.security import ClientSecurity
from ottla_core.errors import ConfigurationError


def test_nothing_said_is_neither_tls_nor_sasl():
    assert ClientSecurity.of({}) == ClientSecurity()


def test_tls_checks_certificate_and_host_unless_told_otherwise():
    checked = ClientSecurity.of({"security.protocol": "SSL"}).tls
    assert checked is not None
    assert (checked.check_hostname, checked.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert checked.minimum_version >= ssl.TLSVersion.TLSv1_2
    any_host = ClientSecurity.of({"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}).tls
    assert any_host is not None
    assert (any_host.check_hostname, any_host.verify_mode) == (False, ssl.CERT_REQUIRED)
    anybody = ClientSecurity.of({"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}).tls
    assert anybody is not None
    assert (anybody.check_hostname, anybody.verify_mode) == (False, ssl.CERT_NONE)


def test_a_login_needs_name_and_password():
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "scram-sha-512", "sasl.username": "w"}
    login = ClientSecurity.of({**settings, "sasl.password": "p"}).login
    assert login is not None
    assert (login.mechanism, login.username, login.password) == ("SCRAM-SHA-512", "w", "p")
    with pytest.raises(ConfigurationError, match=r"sasl\.password: must be set for scram-sha-512"):
        ClientSecurity.of(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security.protocol": "tls"}, "security.protocol: tls is unknown; plaintext, ssl"),
        ({"security.protocol": "sasl_ssl"}, "sasl.mechanism: GSSAPI is not supported here; PLAIN"),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.oauthbearer.token.endpoint.url and .*: must be set for OAUTHBEARER",
        ),
        ({"security.protocol": "ssl", "ssl.key.pem": "k"}, "ssl.key.pem: is of no use without ssl.certificate"),
        (
            {"security.protocol": "ssl", "ssl.certificate.pem": "secret-c", "ssl.key.pem": "secret-k"},
            r"ssl\.certificate\.pem, ssl\.key\.pem: (?!.*secret)",
        ),
        ({"security.protocol": "ssl", "ssl.keystore.location": "k.p12"}, "ssl.keystore.location: PKCS12"),
        (
            {"security.protocol": "ssl", "ssl.ca.location": "/nowhere.pem"},
            "ssl.ca.location /nowhere.pem: .*No such file",
        ),
        ({"security.protocol": "ssl", "ssl.ca.pem": "no certificate"}, "ssl.ca.pem"),
        (
            {"security.protocol": "ssl", "ssl.certificate.location": "/nowhere.pem"},
            "ssl.certificate.location /nowhere",
        ),
        ({"security.protocol": "ssl", "ssl.cipher.suites": "NONE-SUCH"}, "ssl.cipher.suites"),
    ],
)
def test_what_cannot_be_used_is_named(settings: dict[str, str], message: str):
    with pytest.raises(ConfigurationError, match=message):
        ClientSecurity.of(settings)


def test_a_file_that_holds_no_certificate_is_named(tmp_path: Path):
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    with pytest.raises(ConfigurationError, match=r"ca\.pem"):
        ClientSecurity.of({"security.protocol": "ssl", "ssl.ca.location": str(path)})
