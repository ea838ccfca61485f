"""Settings that are secrets are marked in their models, known by their names, and shown by nobody."""

from collections.abc import Iterator

import pytest

from ottla.local.settings import parse_setting
from ottla_broker.sasl import sasl_settings
from ottla_broker.tls import tls_settings
from ottla_broker.tls.tls_settings import Store
from ottla_core.config import checked
from ottla_core.rest.settings import RestSettings
from ottla_mirror.config.mirror_config import shown
from ottla_sdk.kafka.secret_settings import is_secret_setting
from tests.support.clusters.service_models import SERVICE_MODELS

OPEN = {
    "broker": [
        *sorted(tls_settings.SECRETS | sasl_settings.SECRETS),
        *(f"listener.name.clients.{key}" for key in sorted(tls_settings.SECRETS)),
        "listener.name.clients.scram-sha-512.sasl.jaas.config",
    ],
    "connect": ["sasl.password", "producer.sasl.jaas.config", "value.converter.basic.auth.user.info", "ssl.key.pem"],
}
SAID = "a-secret-of-4711"


def secrets() -> Iterator[tuple[str, str]]:
    for role, model in SERVICE_MODELS.items():
        for key in (*sorted(model.secret_keys()), *OPEN.get(role, ())):
            yield role, key


@pytest.mark.parametrize("role", SERVICE_MODELS)
def test_a_setting_that_is_called_like_a_secret_is_marked_as_one(role: str) -> None:
    model = SERVICE_MODELS[role]
    named = {key for key in model.known_keys() if is_secret_setting(key)}
    assert {key for key in model.known_keys() if model.is_secret(key)} == named


@pytest.mark.parametrize(("role", "key"), [*secrets()])
def test_a_secret_is_in_no_message_and_in_no_repr_and_the_start_does_not_show_it(role: str, key: str) -> None:
    model = SERVICE_MODELS[role]
    assert model.is_secret(key)
    assert parse_setting(f"{role}:{key}={SAID}").shown == f"{role}:{key}=(hidden)"
    needed = {"node.id": "1", "log.dirs": "/tmp/logs", "clusters": "A"}
    written = {each: value for each, value in needed.items() if model.accepts(each)} | {key: SAID}
    config, problems = checked(model, written, {key: "a file"})
    assert SAID not in "".join(problems)
    assert SAID not in repr(config)


def test_what_is_made_of_secrets_shows_none_of_them() -> None:
    assert SAID not in repr(Store(kind="PEM", password=SAID, key=SAID))
    rest = RestSettings.model_validate(
        {"listeners.https.ssl.keystore.location": "both.pem", "listeners.https.ssl.key.password": SAID}
    )
    assert rest.https_key_password == SAID
    assert SAID not in repr(rest.rest_tls)


@pytest.mark.parametrize(
    "key",
    ["sasl.password", "ssl.key.password", "basic.auth.user.info", "ssl.key.pem", "ssl.keystore.key",
     "sasl.jaas.config", "bearer.auth.token", "sasl.oauthbearer.client.secret", "producer.override.sasl.jaas.config"],
)  # fmt: skip
def test_secrets_are_known_by_their_names(key: str) -> None:
    assert is_secret_setting(key)
    assert shown({key: SAID, f"{key}.file": "/run/it"}) == {key: "[hidden]", f"{key}.file": "/run/it"}
    assert shown({key: "${file:/run/it:key}"}) == {key: "${file:/run/it:key}"}


@pytest.mark.parametrize(
    "key", ["ssl.key.location", "security.protocol", "sasl.oauthbearer.token.endpoint.url", "key.converter"]
)
def test_what_merely_says_where_a_secret_is_counts_as_none(key: str) -> None:
    assert not is_secret_setting(key)
