"""The broker's settings about who clients are, what they may do, and how much: logins, rights, audit log, quotas."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from ottla_core.config import SECRET, ServiceConfig
from ottla_core.dynamic_broker_config import address_limits
from ottla_core.errors import InvalidConfig

MAX_INT: Final = 2**31 - 1
AUDIT_TO_STDOUT: Final = "stdout"


def _split_principals(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    names = tuple(name.strip() for name in value.split(";") if name.strip())
    for name in names:
        kind, colon, rest = name.partition(":")
        if not (kind and colon and rest):
            raise ValueError(f"{name} is no principal of the form TYPE:NAME, such as User:ada")
    return names


def _address_limits(text: str) -> str:
    try:
        address_limits(text)
    except InvalidConfig as error:
        raise ValueError(error.message) from None
    return text


class ClientControlConfig(ServiceConfig):
    """What brokers are set to about clients."""

    authorizer_class_name: str = Field(
        "",
        alias="authorizer.class.name",
        description="The class that decides what clients may do: StandardAuthorizer, also by Kafka's name, goes by "
        "access control lists; a plugin's has settings of its own, authorizer.*. Empty: every client may do "
        "everything. The same for all brokers.",
    )
    principal_builder_class: str = Field(
        "",
        alias="principal.builder.class",
        description="The class of a plugin that says who clients are, with settings of its own, principal.builder.*, "
        "also as listener.name.NAME.principal.builder.class; "
        "empty: the user that has logged in, or the name in a certificate. The same for all brokers.",
    )
    super_users: Annotated[tuple[str, ...], BeforeValidator(_split_principals)] = Field(
        (),
        alias="super.users",
        description="Principals that may do everything, as TYPE:NAME, separated by semicolons; brokers, as they "
        "fetch from each other, must be among them, or have CLUSTER_ACTION on the cluster.",
    )
    allow_everyone_if_no_acl_found: bool = Field(
        False,
        alias="allow.everyone.if.no.acl.found",
        description="Whether everybody may do everything with a resource for which there is no access control list.",
    )
    audit_log_path: str = Field(
        "",
        alias="audit.log.path",
        description="File to which records are appended of what clients are refused and of changes of the cluster; "
        "stdout: into the broker's own log; empty: nowhere.",
    )
    audit_log_data_enable: bool = Field(
        False,
        alias="audit.log.data.enable",
        description="Whether the audit log also tells, once a minute, which topics each client writes and reads; "
        "only with authorizer.class.name.",
    )
    audit_log_records_per_second_max: int = Field(
        1000,
        alias="audit.log.records.per.second.max",
        ge=1,
        description="Records of the audit log in a second, of each kind; more are dropped and counted.",
    )
    connection_failed_authentication_delay_ms: int = Field(
        100,
        alias="connection.failed.authentication.delay.ms",
        ge=0,
        le=10_000,
        description="Milliseconds that a client waits until it is told that its login has failed.",
    )
    delegation_token_secret_key: Annotated[str | None, SECRET] = Field(
        None,
        alias="delegation.token.secret.key",
        min_length=1,
        description="Secret from which the secrets of delegation tokens follow; the same for all brokers. "
        "Without it there are no tokens.",
    )
    delegation_token_max_lifetime_ms: int = Field(
        604_800_000,
        alias="delegation.token.max.lifetime.ms",
        ge=1,
        description="Milliseconds after which a delegation token expires, however often it is renewed.",
    )
    delegation_token_expiry_time_ms: int = Field(
        86_400_000,
        alias="delegation.token.expiry.time.ms",
        ge=1,
        description="Milliseconds after which a delegation token expires that is not renewed.",
    )
    max_connections_per_ip_overrides: Annotated[str, AfterValidator(_address_limits)] = Field(
        "",
        alias="max.connections.per.ip.overrides",
        description="Connections at once from addresses that are named: ADDRESS:COUNT, separated by commas.",
    )
    max_connection_creation_rate: int = Field(
        MAX_INT,
        alias="max.connection.creation.rate",
        ge=1,
        le=MAX_INT,
        description="Connections that are accepted per second, but for those of brokers where they have a listener "
        "of their own. Also as listener.name.NAME.max.connection.creation.rate.",
    )
    quota_window_num: int = Field(
        11,
        alias="quota.window.num",
        ge=1,
        le=1000,
        description="Samples over which a client's rate is taken that has a quota.",
    )
    quota_window_size_seconds: int = Field(
        1,
        alias="quota.window.size.seconds",
        ge=1,
        le=3600,
        description="Seconds of each sample of a client's rate that has a quota.",
    )
    controller_quota_window_num: int = Field(
        11,
        alias="controller.quota.window.num",
        ge=1,
        le=1000,
        description="Samples of a controller_mutation_rate that a client may use at once.",
    )
    controller_quota_window_size_seconds: int = Field(
        1,
        alias="controller.quota.window.size.seconds",
        ge=1,
        le=3600,
        description="Seconds of each sample of a controller_mutation_rate.",
    )
