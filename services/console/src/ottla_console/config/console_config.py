"""Settings of the console: where it listens, who stays signed in for how long, which clusters it shows."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from ottla_console.config.cluster_settings import PREFIX, ClusterSettings, cluster_settings
from ottla_console.config.masking_settings import PREFIX as MASKING_PREFIX
from ottla_console.config.masking_settings import masking_rules
from ottla_console.config.openid_settings import CALLBACK, OPENID_SCOPE, OpenIdSettings, problem_of_address
from ottla_console.config.roles import Role
from ottla_core.config import SECRET, CommaSeparated, MetricsSettings, load_config
from ottla_core.errors import ConfigurationError
from ottla_core.rest.settings import DEFAULT_HOST, Listener, Listeners, RestTls
from ottla_operations.records.record_masking import Masking, MaskingRule
from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.local_references import BadReference, resolved

PROGRAM: Final = "ottla-console"
DEFAULT_PORT: Final = 8086


class ConsoleConfig(MetricsSettings):
    """What the console can be told."""

    model_config = ConfigDict(extra="allow")
    open_prefixes: ClassVar[tuple[str, ...]] = (PREFIX, MASKING_PREFIX)

    listeners: Listeners = Field(
        (Listener("http", DEFAULT_HOST, DEFAULT_PORT),),
        alias="listeners",
        description="URLs that the console listens on, separated by commas: http://HOST:PORT or https://HOST:PORT. "
        "No host means every interface; port 0 takes any free one. Who reaches it may do what the credentials in "
        "cluster.NAME.client.* may, on clusters without sign-in.",
    )
    https_keystore_location: Path | None = Field(
        None,
        alias="listeners.https.ssl.keystore.location",
        description="PEM file with the private key and certificate chain of https listeners; read again when it "
        "changes.",
    )
    https_key_password: Annotated[str | None, SECRET] = Field(
        None, alias="listeners.https.ssl.key.password", description="Password of the https listeners' private key."
    )
    public_url: str | None = Field(
        None,
        alias="public.url",
        description="URL by which browsers reach the console where that is not a listener's, as behind a proxy. "
        "Without it a console that listens on this machine alone answers only to names of this machine.",
    )
    clusters: CommaSeparated = Field(
        alias="clusters",
        min_length=1,
        description="Names of the clusters, separated by commas; cluster.NAME.* says how each is reached.",
    )
    read_only: bool = Field(
        False, alias="read.only", description="Whether nothing can be changed by the console, whoever signs in."
    )
    session_idle_timeout_ms: int = Field(
        1_800_000,
        alias="session.idle.timeout.ms",
        ge=1000,
        description="Milliseconds without a request after which a user has to sign in again.",
    )
    session_lifetime_ms: int = Field(
        43_200_000,
        alias="session.lifetime.ms",
        ge=1000,
        description="Milliseconds after which a user has to sign in again in any case.",
    )
    sessions_max: int = Field(
        1000,
        alias="sessions.max",
        ge=1,
        description="Most sessions at a time; of more, the one that was not used for longest ends.",
    )
    threads_max: int = Field(
        32,
        alias="threads.max",
        ge=2,
        description="Most questions to clusters at a time; as many again wait, and what is beyond that is refused.",
    )
    audit_log_path: Path | None = Field(
        None,
        alias="audit.log.path",
        description="File to which every action is added as a line of JSON; by default they are in the log alone.",
    )
    masking_rules: CommaSeparated = Field(
        (),
        alias="masking.rules",
        description="Names of rules for fields of messages that are shown masked, separated by commas; "
        "masking.rule.NAME.* says what each masks.",
    )
    masking_hash_secret: Annotated[str | None, SECRET] = Field(
        None,
        alias="masking.hash.secret",
        min_length=16,
        description="Secret under which masked fields are hashed. By default each start draws one, so hashes differ "
        "from then on.",
    )
    oidc_issuer: str | None = Field(
        None,
        alias="oidc.issuer",
        description="URL of an OpenID provider that signs users in, as its tokens have it; by default there is none. "
        "cluster.NAME.login says for which clusters.",
    )
    oidc_client_id: str | None = Field(
        None, alias="oidc.client.id", min_length=1, description="By which client the provider knows the console."
    )
    oidc_client_secret: Annotated[str | None, SECRET] = Field(
        None, alias="oidc.client.secret", min_length=1, description="That client's secret; a public client has none."
    )
    oidc_scopes: CommaSeparated = Field(
        (OPENID_SCOPE, "profile"),
        alias="oidc.scopes",
        description="Scopes that are asked for, separated by commas, openid among them; for offline_access many "
        "providers give a refresh token.",
    )
    oidc_name_claim: str = Field(
        "sub",
        alias="oidc.name.claim",
        min_length=1,
        description="Claim of the ID token that is the user's name, in the audit log and for masking rules. Take one "
        "that users cannot choose for themselves.",
    )
    oidc_groups_claim: str = Field(
        "groups",
        alias="oidc.groups.claim",
        min_length=1,
        description="Claim of the ID token that has the user's groups, such as realm_access.roles.",
    )
    oidc_viewer_groups: CommaSeparated = Field(
        (),
        alias="oidc.viewer.groups",
        description="Groups whose members are viewers, separated by commas: they see all but security and state, and "
        "change nothing. * stands for everybody whom the provider signs in.",
    )
    oidc_editor_groups: CommaSeparated = Field(
        (),
        alias="oidc.editor.groups",
        description="Groups whose members are editors: they change topics, groups and connectors, too, and publish "
        "messages.",
    )
    oidc_admin_groups: CommaSeparated = Field(
        (),
        alias="oidc.admin.groups",
        description="Groups whose members are admins: they do all that the console can.",
    )
    oidc_ca_location: Path | None = Field(
        None,
        alias="oidc.ca.location",
        description="PEM file with the authorities of the provider's certificate; by default those of the system.",
    )
    log_level: str = Field(
        "info",
        alias="log.level",
        pattern="^(debug|info|warning|error)$",
        description="Least severe level that is logged: debug, info, warning or error.",
    )

    @classmethod
    def is_secret(cls, key: str) -> bool:
        """Return whether a setting's value is shown to nobody."""
        return key in cls.secret_keys() or (key.startswith(PREFIX) and is_secret_setting(key))

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if value is not None and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/")):
            raise ValueError("write it as https://HOST or https://HOST:PORT, without a path")
        return value

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        has_https = any(listener.scheme == "https" for listener in self.listeners)
        if has_https and self.https_keystore_location is None:
            raise ValueError("listeners.https.ssl.keystore.location: must be set for an https listener")
        shown = cluster_settings(self.clusters, self._below(PREFIX))
        self._rules()
        self._check_provider([each.name for each in shown.values() if each.by_provider])
        return self

    def _check_provider(self, needing: Sequence[str]) -> None:
        if self.oidc_issuer is None:
            if needing:
                raise ValueError(f"oidc.issuer: must be set, as cluster.{needing[0]}.login says")
            return
        if problem := problem_of_address(self.oidc_issuer):
            raise ValueError(f"oidc.issuer: {problem}")
        if self.oidc_client_id is None:
            raise ValueError("oidc.client.id: must be set with oidc.issuer")
        if self.public_url is None:
            raise ValueError("public.url: must be set with oidc.issuer, which sends browsers back to it")
        if problem := problem_of_address(self.public_url):
            raise ValueError(f"public.url: with oidc.issuer, {problem}")
        if OPENID_SCOPE not in self.oidc_scopes:
            raise ValueError(f"oidc.scopes: {OPENID_SCOPE} has to be among them")

    def _below(self, prefix: str) -> Mapping[str, str]:
        return {key: str(value) for key, value in (self.model_extra or {}).items() if key.startswith(prefix)}

    def _rules(self) -> tuple[MaskingRule, ...]:
        return masking_rules(self.masking_rules, self._below(MASKING_PREFIX), self.clusters)

    @property
    def tls(self) -> RestTls | None:
        """What https listeners need; None without them."""
        keystore = self.https_keystore_location
        if keystore is None:
            return None
        return RestTls(
            certificate=keystore,
            key=keystore,
            key_password=self.https_key_password,
            authorities=None,
            client_certificates="none",
        )

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the console by TLS alone."""
        if self.public_url is not None:
            return self.public_url.startswith("https:")
        return all(listener.scheme == "https" for listener in self.listeners)

    def shown_clusters(self, environment: Mapping[str, str] = os.environ) -> Mapping[str, ClusterSettings]:
        """Return the clusters by name, with `${env:NAME}` and `${file:PATH}` looked up.

        Raises:
            ConfigurationError: a reference leads nowhere.
        """
        try:
            written = {key: resolved(value, environment) for key, value in self._below(PREFIX).items()}
        except BadReference as error:
            raise ConfigurationError(str(error)) from None
        return cluster_settings(self.clusters, written)

    def openid(self, environment: Mapping[str, str] = os.environ) -> OpenIdSettings | None:
        """Return the OpenID provider, with the secret's `${env:NAME}` or `${file:PATH}` looked up; None without one.

        Raises:
            ConfigurationError: the reference leads nowhere.
        """
        if self.oidc_issuer is None:
            return None
        assert self.oidc_client_id is not None, "it is checked"
        assert self.public_url is not None, "it is checked"
        try:
            secret = self.oidc_client_secret and resolved(self.oidc_client_secret, environment)
        except BadReference as error:
            raise ConfigurationError(f"oidc.client.secret: {error}") from None
        named = {
            Role.VIEWER: self.oidc_viewer_groups,
            Role.EDITOR: self.oidc_editor_groups,
            Role.ADMIN: self.oidc_admin_groups,
        }
        return OpenIdSettings(
            issuer=self.oidc_issuer,
            client_id=self.oidc_client_id,
            client_secret=secret,
            scopes=self.oidc_scopes,
            name_claim=self.oidc_name_claim,
            groups_claim=self.oidc_groups_claim,
            groups={role: frozenset(groups) for role, groups in named.items()},
            authorities=None if self.oidc_ca_location is None else str(self.oidc_ca_location),
            redirect_uri=self.public_url.rstrip("/") + CALLBACK,
        )

    def masking(self, environment: Mapping[str, str] = os.environ) -> Masking:
        """Return what is masked, with the key's `${env:NAME}` or `${file:PATH}` looked up.

        Raises:
            ConfigurationError: the reference leads nowhere.
        """
        if self.masking_hash_secret is None:
            return Masking(self._rules(), secrets.token_bytes(32))
        try:
            key = resolved(self.masking_hash_secret, environment)
        except BadReference as error:
            raise ConfigurationError(f"masking.hash.secret: {error}") from None
        return Masking(self._rules(), key.encode())

    @classmethod
    def load(cls, arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> Self:
        """Read the settings from command line, environment and file.

        Raises:
            ConfigurationError: lists everything that is wrong.
        """
        return load_config(cls, arguments, environment, PROGRAM)
