"""A profile: where one cluster, its workers and its schema registry are, and how clients reach them. Pure.

Secrets are not kept in profiles: what stands there is `${env:NAME}` or `${file:PATH}`, looked up when it is used.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from ottla_sdk.kafka.secret_settings import is_secret_setting

REFERENCE = re.compile(r"\$\{(?P<kind>env|file):(?P<name>[^}]+)\}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

LookUp = Callable[[str, str], str]
"""Returns what a reference of a kind and a name stands for; raises `BadProfile`."""


class BadProfile(ValueError):
    """A profile, or a part of it, that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A cluster and its surroundings.

    Attributes:
        bootstrap: addresses of brokers; None for the local cluster's.
        connect_url: where Connect workers listen, or None.
        mirror_url: where mirror workers listen, or None.
        rest_config: file with what is shown to these workers (`ottla_sdk.worker_access`), or None.
        schema_registry: where a schema registry is, or None.
        client: librdkafka's settings for this cluster.
        registry: settings of the schema registry's client.
    """

    bootstrap: str | None = None
    connect_url: str | None = None
    mirror_url: str | None = None
    rest_config: str | None = None
    schema_registry: str | None = None
    client: Mapping[str, str] = field(default_factory=dict)
    registry: Mapping[str, str] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """Return it as JSON values; what is not set is left out."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read what `to_document` returned.

        Raises:
            BadProfile: it is something else.
        """
        if not isinstance(document, dict):
            raise BadProfile("it is no JSON object")
        texts = ("bootstrap", "connect_url", "mirror_url", "rest_config", "schema_registry")
        for name, value in document.items():
            if name in texts:
                if not isinstance(value, str):
                    raise BadProfile(f"its {name} is no string")
            elif name not in ("client", "registry"):
                raise BadProfile(f"it has the unknown field {name}")
            elif not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
                raise BadProfile(f"its {name} is no object of strings")
        return cls(**document)


def check_name(name: str) -> None:
    """See that a profile can have this name.

    Raises:
        BadProfile: it cannot.
    """
    if NAME.fullmatch(name) is None:
        raise BadProfile(f"{name!r} is no name of a profile: letters, digits, '.', '_' and '-', at most 100")


def check(profile: Profile) -> None:
    """See that settings belong to an address, and that secrets are given by reference.

    Raises:
        BadProfile: settings have no address, or a secret stands there as it is.
    """
    if profile.client and profile.bootstrap is None:
        raise BadProfile("client settings belong to a cluster: give its --bootstrap, too")
    if profile.registry and profile.schema_registry is None:
        raise BadProfile("registry settings belong to a registry: give its --schema-registry, too")
    if profile.rest_config and not (profile.connect_url or profile.mirror_url):
        raise BadProfile("settings for workers belong to workers: give --connect-url or --mirror-url, too")
    for key, value in (*profile.client.items(), *profile.registry.items()):
        if is_secret_setting(key) and REFERENCE.fullmatch(value) is None:
            raise BadProfile(
                f"{key} is a secret, which no profile keeps: write '{key}=${{env:NAME}}' for a variable of the "
                f"environment, or '{key}=${{file:/path}}' for what a file holds"
            )
    for urls in (profile.schema_registry, profile.connect_url, profile.mirror_url):
        if urls and any(urlsplit(url.strip()).password for url in urls.split(",")):
            raise BadProfile(
                "a URL with a password in it is a secret, which no profile keeps; for a schema registry use "
                "--registry-property 'basic.auth.user.info=${env:NAME}', for workers --rest-config FILE"
            )


def resolved(settings: Mapping[str, str], look_up: LookUp) -> dict[str, str]:
    """Return settings with what their references stand for.

    Raises:
        BadProfile: a reference leads nowhere.
    """

    def replace(found: re.Match[str]) -> str:
        return look_up(found["kind"], found["name"])

    return {key: REFERENCE.sub(replace, value) for key, value in settings.items()}
