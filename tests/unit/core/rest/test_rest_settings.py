"""Settings of REST APIs: TLS, who may use them, and addresses for administration."""

from pathlib import Path

import pytest

from ottla_connect.config import WorkerConfig
from ottla_core.errors import ConfigurationError
from ottla_mirror.config.mirror_config import MirrorConfig

HTTPS = {"listeners": "https://127.0.0.1:0"}
OWN = {"listeners.https.ssl.keystore.location": "/own.pem", "listeners.https.ssl.truststore.location": "/own-ca.pem"}
CLIENTS = {"ssl.keystore.location": "/client.pem", "ssl.keystore.type": "PEM",
           "ssl.truststore.location": "/client-ca.pem", "ssl.truststore.type": "PEM"}  # fmt: skip


def problems(raw: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        WorkerConfig.parse(raw)
    return str(caught.value)


def test_listeners_of_https_take_the_clients_stores_where_they_have_none_of_their_own():
    tls = WorkerConfig.parse(HTTPS | OWN | CLIENTS).rest_tls
    assert tls is not None
    assert (tls.certificate, tls.authorities) == (Path("/own.pem"), Path("/own-ca.pem"))
    tls = WorkerConfig.parse(HTTPS | CLIENTS).rest_tls
    assert tls is not None
    assert (tls.certificate, tls.authorities) == (Path("/client.pem"), Path("/client-ca.pem"))
    assert WorkerConfig.parse(CLIENTS).rest_tls is None, "there is no such listener"
    assert "listeners.https.ssl.keystore.location: must be set" in problems(HTTPS)


def test_stores_of_java_are_refused_with_the_command_that_converts_them():
    told = problems(HTTPS | OWN | {"listeners.https.ssl.keystore.type": "JKS"})
    assert "keytool -importkeystore" in told
    assert "openssl pkcs12" in told


def test_versions_of_tls_are_those_that_there_are():
    assert "TLSv1.2" in problems(HTTPS | OWN | {"listeners.https.ssl.enabled.protocols": "TLSv1.1"})
    tls = WorkerConfig.parse(HTTPS | OWN | {"listeners.https.ssl.enabled.protocols": "TLSv1.3"}).rest_tls
    assert tls is not None
    assert tls.protocols == ("TLSv1.3",)


def test_addresses_for_administration_are_none_of_the_clients_settings():
    config = WorkerConfig.parse({"admin.listeners": "http://127.0.0.1:1", "admin.client.id": "x"})
    assert [str(each) for each in config.admin_listeners or ()] == ["http://127.0.0.1:1"]
    assert config.with_prefix("admin.") == {"client.id": "x"}
    assert WorkerConfig.parse(config.raw).admin_listeners == config.admin_listeners
    off = WorkerConfig.parse({"admin.listeners": ""})
    assert off.admin_listeners == ()
    assert WorkerConfig.parse(off.raw).admin_listeners == ()
    assert WorkerConfig.parse({}).admin_listeners is None
    assert "listeners.https.ssl.keystore.location" in problems({"admin.listeners": "https://127.0.0.1:1"})


def test_each_way_to_be_known_needs_what_it_goes_by():
    told = problems({"rest.authentication.methods": "basic,bearer,kerberos"})
    for words in ("rest.basic.users.location", "rest.bearer.jwks.endpoint.url", "kerberos is unknown"):
        assert words in told
    told = problems({"rest.authentication.methods": "certificate"})
    assert "listeners.https.ssl.client.auth" in told
    required = {"rest.authentication.methods": "certificate", "listeners.https.ssl.client.auth": "required"}
    told = problems(HTTPS | required | {"listeners.https.ssl.keystore.location": "/own.pem"})
    assert "listeners.https.ssl.truststore.location" in told
    assert WorkerConfig.parse(HTTPS | OWN | required).rest_access is not None
    assert "User:NAME" in problems({"rest.administrators": "ann"})


def test_extensions_of_java_are_refused_with_what_is_there_instead():
    extension = {
        "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
    }
    assert "rest.authentication.methods=basic" in problems(extension)
    with pytest.raises(ConfigurationError, match=r"rest\.authentication\.methods=basic"):
        MirrorConfig.parse({"clusters": "a", "a.bootstrap.servers": "x:1", **extension})
