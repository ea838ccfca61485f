"""Settings by which the operator of a worker limits its connectors."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ottla_core.config import CommaSeparated, ServiceConfig
from ottla_sdk.runtime.class_policy import ClassPolicy


def _override_policy(value: object) -> object:
    if not isinstance(value, str):
        return value
    bare = value.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    return bare.capitalize()


class ConnectorPolicySettings(ServiceConfig):
    """What connectors may do on this worker."""

    connector_classes_allowed: CommaSeparated = Field(
        ("*",),
        alias="connector.classes.allowed",
        description="Patterns of the connector classes that may run (*, ?, [abc]), separated by commas; any name of "
        "the class counts. Nothing: no class may.",
    )
    connector_classes_denied: CommaSeparated = Field(
        (),
        alias="connector.classes.denied",
        description="Patterns of the connector classes that may not run, even if they are allowed.",
    )
    connector_internal_addresses_allowed: bool = Field(
        True,
        alias="connector.internal.addresses.allowed",
        description="Whether HTTP connectors may connect to loopback, link-local, private and reserved addresses.",
    )
    connector_client_config_override_policy: Annotated[
        Literal["All", "Allowlist", "Principal", "None"], BeforeValidator(_override_policy)
    ] = Field(
        "All",
        alias="connector.client.config.override.policy",
        description="Which client settings connectors may override: All, Allowlist (those of "
        "connector.client.config.override.allowlist), Principal (who they are to brokers), None.",
    )
    connector_client_config_override_allowlist: CommaSeparated = Field(
        (),
        alias="connector.client.config.override.allowlist",
        description="Client settings that connectors may override under the policy Allowlist, separated by commas.",
    )

    @property
    def class_policy(self) -> ClassPolicy:
        """Return which connector classes may run."""
        return ClassPolicy(self.connector_classes_allowed, self.connector_classes_denied)
