"""Settings by which the operator of a worker limits its connectors."""

from pathlib import PurePath
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ottla_core.config import CommaSeparated, ServiceConfig
from ottla_sdk.runtime.class_policy import ClassPolicy


def _override_policy(value: object) -> object:
    if not isinstance(value, str):
        return value
    bare = value.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    return bare.capitalize()


ANYWHERE: Final = "/"


def _absolute(roots: tuple[str, ...]) -> tuple[str, ...]:
    for each in roots:
        if not PurePath(each).is_absolute():
            raise ValueError(f"{each} is not absolute")
    return roots


class ConnectorPolicySettings(ServiceConfig):
    """What connectors may do on this worker."""

    connector_classes_allowed: CommaSeparated = Field(
        ("*",),
        alias="connector.classes.allowed",
        description="Patterns of the classes that may run (*, ?, [abc]), separated by commas: of connectors, and of "
        "converters, transforms and predicates that connectors name; any of its names counts. Nothing: no class may.",
    )
    connector_classes_denied: CommaSeparated = Field(
        (),
        alias="connector.classes.denied",
        description="Patterns of the classes of connectors, converters, transforms and predicates that may not run, "
        "even if they are allowed.",
    )
    connector_internal_addresses_allowed: bool = Field(
        True,
        alias="connector.internal.addresses.allowed",
        description="Whether HTTP connectors may connect to loopback, link-local, private and reserved addresses.",
    )
    connector_file_roots_allowed: Annotated[CommaSeparated, AfterValidator(_absolute)] = Field(
        (ANYWHERE,),
        alias="connector.file.roots.allowed",
        description="Directories in which connectors may read and write files, with all below them, separated by "
        "commas. Nothing: in none.",
    )
    connector_processes_allowed: bool = Field(
        True,
        alias="connector.processes.allowed",
        description="Whether connectors may start processes, as Spark jobs and converters of Protobuf sources do.",
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
    def file_roots(self) -> tuple[str, ...] | None:
        """Return the directories in which connectors may touch files; None: anywhere."""
        roots = self.connector_file_roots_allowed
        return None if ANYWHERE in roots else roots

    @property
    def class_policy(self) -> ClassPolicy:
        """Return which connector classes may run."""
        return ClassPolicy(self.connector_classes_allowed, self.connector_classes_denied)
