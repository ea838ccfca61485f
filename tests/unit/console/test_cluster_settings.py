"""Clusters in the console's settings."""

import pytest

from ottla_console.config.cluster_settings import cluster_settings
from ottla_console.config.console_config import ConsoleConfig
from ottla_console.config.roles import Role
from ottla_core.errors import ConfigurationError

PROD = {"cluster.prod.bootstrap.servers": "k:9092"}


def test_a_cluster_with_sasl_needs_sign_in_and_one_without_does_not() -> None:
    written = {
        **PROD,
        "cluster.prod.client.security.protocol": "SASL_SSL",
        "cluster.prod.client.sasl.mechanism": "PLAIN",
        "cluster.test.bootstrap.servers": "t:1",
    }
    found = cluster_settings(("prod", "test"), written)
    assert found["prod"].needs_sign_in
    assert not found["test"].needs_sign_in
    shared = cluster_settings(("prod", "test"), {**written, "cluster.prod.login": "shared"})
    assert not shared["prod"].needs_sign_in
    assert found["prod"].connect_changes == "refused"  # workers would not know who of the users asks
    assert shared["prod"].connect_changes == "allowed"
    chosen = cluster_settings(("prod", "test"), {**written, "cluster.prod.connect.changes": "allowed"})
    assert chosen["prod"].connect_changes == "allowed"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({}, r"cluster.prod.bootstrap.servers: must be set"),
        ({**PROD, "cluster.prod.rubbish": "1"}, "cluster.prod.rubbish: unknown"),
        ({**PROD, "cluster.other.bootstrap.servers": "x:1"}, "no such cluster"),
        ({**PROD, "cluster.prod.login": "user"}, "sign in by SASL"),
        ({**PROD, "cluster.prod.etcd.cluster.name": "a/b"}, "etcd.cluster.name: it has letters"),
        ({**PROD, "cluster.prod.login": "nobody"}, "one of user, shared"),
        ({**PROD, "cluster.prod.connect.changes": "yes"}, "one of allowed, refused"),
        ({**PROD, "cluster.prod.connect.changes": "roles"}, "whom the OpenID provider signs in"),
        ({**PROD, "cluster.prod.login": "token"}, "sign in by SASL"),
        (
            {
                **PROD,
                "cluster.prod.login": "token",
                "cluster.prod.client.security.protocol": "SASL_SSL",
                "cluster.prod.client.sasl.mechanism": "PLAIN",
            },
            "it is OAUTHBEARER",
        ),
        ({**PROD, "cluster.prod.client.plugin.library.paths": "/x.so"}, "native code"),
        ({**PROD, "cluster.prod.client.bootstrap.servers": "x:1"}, "write cluster.prod.bootstrap.servers"),
    ],
)
def test_what_is_wrong_is_named(written: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        cluster_settings(("prod",), written)


def test_settings_come_from_variables_and_references_are_looked_up() -> None:
    environment = {
        "OTTLA_CLUSTERS": "prod",
        "OTTLA_CLUSTER_PROD_BOOTSTRAP_SERVERS": "k:9092",
        "OTTLA_CLUSTER_PROD_CLIENT_SASL_PASSWORD": "${env:SECRET}",
    }
    config = ConsoleConfig.load([], environment)
    assert config.shown_clusters({"SECRET": "word"})["prod"].client["sasl.password"] == "word"
    with pytest.raises(ConfigurationError, match="SECRET"):
        config.shown_clusters({})
    assert not config.is_secure


PROVIDER = {
    "OTTLA_CLUSTERS": "prod",
    "OTTLA_CLUSTER_PROD_BOOTSTRAP_SERVERS": "k:9092",
    "OTTLA_CLUSTER_PROD_LOGIN": "openid",
    "OTTLA_OIDC_ISSUER": "https://idp.example",
    "OTTLA_OIDC_CLIENT_ID": "console",
    "OTTLA_OIDC_CLIENT_SECRET": "${env:SECRET}",
    "OTTLA_OIDC_ADMIN_GROUPS": "platform, ops",
    "OTTLA_PUBLIC_URL": "https://console.example",
}


def test_an_openid_provider_signs_users_in_and_its_secret_is_not_printed() -> None:
    config = ConsoleConfig.load([], PROVIDER)
    found = config.openid({"SECRET": "word"})
    assert found is not None
    assert (found.redirect_uri, found.client_secret) == ("https://console.example/openid/callback", "word")
    assert found.role_of(["ops"]) is Role.ADMIN
    assert "word" not in repr(found)
    assert "SECRET" not in repr(config)
    cluster = config.shown_clusters({})["prod"]
    assert (cluster.login, cluster.needs_sign_in, cluster.connect_changes) == ("openid", True, "roles")
    with pytest.raises(ConfigurationError, match=r"oidc.client.secret"):
        config.openid({})


def test_with_tokens_of_users_nothing_is_asked_for_how_to_get_them() -> None:
    written = {**PROD, "cluster.prod.login": "token", "cluster.prod.client.security.protocol": "SASL_SSL"}
    assert cluster_settings(("prod",), written)["prod"].client["sasl.mechanism"] == "OAUTHBEARER"


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"OTTLA_OIDC_ISSUER": None}, "oidc.issuer: must be set"),
        ({"OTTLA_OIDC_ISSUER": "http://idp.example"}, "oidc.issuer: it is no https"),
        ({"OTTLA_OIDC_CLIENT_ID": None}, "oidc.client.id"),
        ({"OTTLA_PUBLIC_URL": None}, "public.url: must be set"),
        ({"OTTLA_PUBLIC_URL": "http://console.example"}, "public.url: with oidc.issuer"),
        ({"OTTLA_OIDC_SCOPES": "profile"}, "openid has to be among them"),
    ],
)
def test_what_a_provider_lacks_is_named(others: dict[str, str | None], told: str) -> None:
    environment = {name: value for name, value in {**PROVIDER, **others}.items() if value is not None}
    with pytest.raises(ConfigurationError, match=told):
        ConsoleConfig.load([], environment)
