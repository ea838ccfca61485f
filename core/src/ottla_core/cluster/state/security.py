"""What the cluster's state says of security: access control lists, credentials, tokens and quotas. Pure.

These keys are written at `features.SECURITY_LEVEL` and above only. No secret stands here: of a password there is what
SCRAM's server needs (RFC 5802), from which neither the password nor a login can be made; the secret of a token
follows from its id and `delegation.token.secret.key`, which only brokers know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from uuid import UUID

from ottla_core.acls import AclBinding


class ScramMechanism(IntEnum):
    """A variant of SCRAM; the numbers are Kafka's (KIP-554)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """What it is called in SASL."""
        return "SCRAM-SHA-256" if self is ScramMechanism.SHA_256 else "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a server keeps of one user's password for one mechanism (RFC 5802, section 3)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token that stands for its owner (KIP-48). Times are in milliseconds since 1970, UTC.

    Attributes:
        owner: the principal, as TYPE:NAME, of clients that authenticate with it.
        requester: the principal that had it made.
        renewers: principals that may renew it besides both.
        expires_ms: when it expires unless it is renewed.
        max_lifetime_ms: when it expires at the latest.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_lifetime_ms: int


class QuotaEntityKind(StrEnum):
    """What a quota may be of, under Kafka's names."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaName(StrEnum):
    """What a quota limits, under Kafka's names."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Of whom a quota is: a user, a client id, both, or an address.

    Attributes:
        names: by kind; None stands for the default of all that have no quota of their own. In the order of
            `QuotaEntityKind`, so that equal entities have equal keys.
    """

    names: tuple[tuple[QuotaEntityKind, str | None], ...]

    def __post_init__(self) -> None:
        order = list(QuotaEntityKind)
        kinds = [kind for kind, _ in self.names]
        assert kinds, "at least one kind"
        assert kinds == sorted(set(kinds), key=order.index), "each kind once, in order"

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'<default>' if name is None else repr(name)}" for kind, name in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityState:
    """The keys of security of one snapshot of the cluster's state.

    Attributes:
        acls: the bindings, by their ids; in place of one that cannot be read, those that deny what it may be about.
        unreadable_acls: the ids of these, by that of the binding that cannot be read.
        scram_credentials: by mechanism and user.
        delegation_tokens: by token id; those that have expired are deleted after a while.
        client_quotas: Kafka's names of quotas and their values, by entity.
    """

    acls: Mapping[UUID, AclBinding] = field(default_factory=dict)
    unreadable_acls: Mapping[UUID, frozenset[UUID]] = field(default_factory=dict)
    scram_credentials: Mapping[tuple[ScramMechanism, str], ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that a process of a former release would have to know."""
        return not (self.acls or self.scram_credentials or self.delegation_tokens or self.client_quotas)
