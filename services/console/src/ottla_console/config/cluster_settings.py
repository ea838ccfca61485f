"""How one cluster is reached, by settings below `cluster.NAME.`. Pure.

What clients are told stands below `cluster.NAME.client.`, under the names that librdkafka or Java's clients have.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ottla_sdk.kafka.client_settings import ClientRules, ClientSettingError, librdkafka_settings

PREFIX: Final = "cluster."
CLIENT: Final = "client."
REGISTRY: Final = "registry."
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
ETCD_CLUSTER_NAME: Final = "ottla"
ETCD_CLUSTER: Final = re.compile(r"[A-Za-z0-9._-]+")
BOOTSTRAP: Final = "bootstrap.servers"
LOGIN: Final = "login"
CONNECT_CHANGES: Final = "connect.changes"
CHECKPOINTS: Final = "connect.checkpoint.location"
SECURITY_PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
BEARER: Final = "OAUTHBEARER"
KEYS: Final[Mapping[str, str]] = {
    BOOTSTRAP: "Addresses of brokers, as HOST:PORT separated by commas.",
    LOGIN: "Whose credentials are used: user (whoever signs in, by SASL), shared (those in cluster.NAME.client.*, "
    "for everybody who reaches it), openid (likewise, for whom the OpenID provider signs in, within a role), "
    "or token (the access token that the provider gives the user, by OAUTHBEARER). By default user where the "
    "security protocol has SASL, else shared.",
    "connect.url": "URLs of Connect workers, separated by commas.",
    CONNECT_CHANGES: "Whether connectors may be changed by the console: allowed, refused, or roles (by editors and "
    "admins). Workers know the console and not its users, so by default it is refused where users sign in with the "
    "cluster's credentials, roles where the OpenID provider signs them in, else allowed.",
    CHECKPOINTS: "Folder or URI below which pipelines that are made of queries keep how far they are; all workers "
    "have to see it. By default it is asked for.",
    "mirror.url": "URLs of mirror workers, separated by commas.",
    "rest.config": "File with what these workers are shown, as with `ottla --rest-config`.",
    "schema.registry.url": "URL of a schema registry.",
    "etcd.url": "URLs where etcd's members show metrics and health, separated by commas; where these answer clients "
    "without a certificate, the cluster's state is read there, too.",
    "etcd.cluster.name": "The brokers' cluster.name, below which etcd has the state; ottla by default.",
    "metrics.urls": "URLs of Prometheus pages of the cluster's processes, separated by commas.",
    f"{CLIENT}*": "Settings of Kafka clients, under librdkafka's or Java's names.",
    f"{REGISTRY}*": "Settings of the schema registry's client.",
}
"""Every key below `cluster.NAME.`, with what it says."""

Login = Literal["user", "shared", "openid", "token"]
LOGINS: Final[tuple[Login, ...]] = ("user", "shared", "openid", "token")
BY_PROVIDER: Final[frozenset[Login]] = frozenset({"openid", "token"})
ConnectChanges = Literal["allowed", "refused", "roles"]
CHANGES: Final[tuple[ConnectChanges, ...]] = ("allowed", "refused", "roles")
_DEFAULT_CHANGES: Final[Mapping[Login, ConnectChanges]] = {
    "user": "refused", "shared": "allowed", "openid": "roles", "token": "roles"
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster.

    Attributes:
        name: as addresses of pages have it.
        bootstrap: addresses of brokers.
        login: whose credentials make the connections.
        client: librdkafka's settings.
        connect_url, mirror_url, etcd_url: URLs separated by commas, or None.
        connect_checkpoints: below which folder or URI pipelines have their checkpoints, or None.
        connect_changes: whether connectors may be changed, or by whom.
        rest_config: file with what workers are shown, or None.
        schema_registry_url: where a schema registry is, or None.
        registry: settings of its client.
        etcd_cluster_name: below which name etcd has the cluster's state.
        metrics_urls: pages of metrics.
    """

    name: str
    bootstrap: str
    login: Login = "shared"
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_url: str | None = None
    connect_checkpoints: str | None = None
    connect_changes: ConnectChanges = "allowed"
    mirror_url: str | None = None
    rest_config: str | None = None
    schema_registry_url: str | None = None
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    etcd_url: str | None = None
    etcd_cluster_name: str = ETCD_CLUSTER_NAME
    metrics_urls: tuple[str, ...] = ()

    @property
    def needs_sign_in(self) -> bool:
        """Whether users have to sign in."""
        return self.login != "shared"

    @property
    def by_provider(self) -> bool:
        """Whether the OpenID provider signs them in."""
        return self.login in BY_PROVIDER


def cluster_settings(names: tuple[str, ...], written: Mapping[str, str]) -> dict[str, ClusterSettings]:
    """Return the clusters of the names, by the settings below `cluster.`.

    Raises:
        ValueError: names every setting that is wrong.
    """
    problems: list[str] = []
    found: dict[str, ClusterSettings] = {}
    for name in names:
        if NAME.fullmatch(name) is None:
            problems.append(f"clusters: {name!r} is no name of a cluster: letters, digits, '_' and '-', at most 100")
            continue
        prefix = f"{PREFIX}{name}."
        own = {key.removeprefix(prefix): value for key, value in written.items() if key.startswith(prefix)}
        problems += [f"{prefix}{key}: unknown setting" for key in own if not _is_known(key)]
        try:
            found[name] = _cluster(name, own)
        except ValueError as error:
            problems.append(str(error))
    prefixes = tuple(f"{PREFIX}{name}." for name in names)
    problems += [f"{key}: no such cluster in clusters" for key in written if not key.startswith(prefixes)]
    if len(set(names)) < len(names):
        problems.append("clusters: a name is there twice")
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _is_known(key: str) -> bool:
    return key in KEYS or key.startswith((CLIENT, REGISTRY))


def _cluster(name: str, own: Mapping[str, str]) -> ClusterSettings:
    prefix = f"{PREFIX}{name}."
    bootstrap = own.get(BOOTSTRAP, "").strip()
    if not bootstrap:
        raise ValueError(f"{prefix}{BOOTSTRAP}: must be set")
    client = _below(own, CLIENT)
    if BOOTSTRAP in client:
        raise ValueError(f"{prefix}{CLIENT}{BOOTSTRAP}: write {prefix}{BOOTSTRAP}")
    by_token = own.get(LOGIN) == "token"
    if by_token and client.get(MECHANISM, BEARER).upper() != BEARER:
        raise ValueError(f"{prefix}{CLIENT}{MECHANISM}: with {prefix}{LOGIN}=token it is {BEARER}")
    try:
        # The tokens come with the users, so nothing is to be asked for how to get them.
        translated = librdkafka_settings({**client, MECHANISM: "PLAIN"} if by_token else client, ClientRules())
    except ClientSettingError as error:
        raise ValueError("; ".join(f"{prefix}{CLIENT}{each}" for each in error.problems)) from None
    has_sasl = str(translated.get(SECURITY_PROTOCOL, "")).lower().startswith("sasl")
    said = own.get(LOGIN, "user" if has_sasl else "shared")
    login = next((each for each in LOGINS if each == said), None)
    if login is None:
        raise ValueError(f"{prefix}{LOGIN}: it is one of {', '.join(LOGINS)}")
    if login in ("user", "token") and not has_sasl:
        raise ValueError(
            f"{prefix}{LOGIN}: users sign in by SASL; set {prefix}{CLIENT}{SECURITY_PROTOCOL} to SASL_SSL or "
            "SASL_PLAINTEXT"
        )
    etcd_cluster_name = own.get("etcd.cluster.name", ETCD_CLUSTER_NAME)
    if ETCD_CLUSTER.fullmatch(etcd_cluster_name) is None:
        raise ValueError(f"{prefix}etcd.cluster.name: it has letters, digits, '.', '_' and '-'")
    wanted = own.get(CONNECT_CHANGES, _DEFAULT_CHANGES[login])
    changes = next((each for each in CHANGES if each == wanted), None)
    if changes is None:
        raise ValueError(f"{prefix}{CONNECT_CHANGES}: it is one of {', '.join(CHANGES)}")
    if changes == "roles" and login not in BY_PROVIDER:
        raise ValueError(f"{prefix}{CONNECT_CHANGES}: only users whom the OpenID provider signs in have roles")
    return ClusterSettings(
        name=name,
        bootstrap=bootstrap,
        login=login,
        client={key: str(value) for key, value in translated.items()} | ({MECHANISM: BEARER} if by_token else {}),
        connect_url=own.get("connect.url"),
        connect_checkpoints=own.get(CHECKPOINTS),
        connect_changes=changes,
        mirror_url=own.get("mirror.url"),
        rest_config=own.get("rest.config"),
        schema_registry_url=own.get("schema.registry.url"),
        registry=_below(own, REGISTRY),
        etcd_url=own.get("etcd.url"),
        etcd_cluster_name=etcd_cluster_name,
        metrics_urls=tuple(each.strip() for each in own.get("metrics.urls", "").split(",") if each.strip()),
    )


def _below(own: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in own.items() if key.startswith(prefix)}
