"""What brokers ask the controller for about clients' logins: users of SCRAM, and delegation tokens. Pure."""

from dataclasses import dataclass

from ottla_core.cluster.state.security import ScramCredential
from ottla_core.errors import CodedError


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A credential to delete; `mechanism` is a plain number, since a client may send one that there is not."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential to write; `mechanism` as in `ScramDeletion`."""

    user: str
    mechanism: int
    credential: ScramCredential


@dataclass(frozen=True, slots=True)
class AlteredUser:
    """How the change of one user ended; `error` is None after a success."""

    user: str
    error: CodedError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A delegation token to create.

    Attributes:
        token_id: drawn by the broker.
        owner: the principal, as TYPE:NAME, of clients that authenticate with it.
        requester: the principal that asks for it.
        renewers: principals that may renew it besides.
        max_lifetime_ms: milliseconds after which it expires at the latest.
        lifetime_ms: milliseconds after which it expires unless it is renewed.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int
    lifetime_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLifetime:
    """When a delegation token shall expire.

    Attributes:
        token_id: which token.
        requester: the principal that asks for it.
        lifetime_ms: milliseconds from now on; less than 0 deletes it at once.
        renews: whether it is to live on, rather than to end; Kafka refuses both in another order.
    """

    token_id: str
    requester: str
    lifetime_ms: int
    renews: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTimes:
    """When a delegation token was made and expires, in milliseconds since 1970."""

    issued_ms: int
    expires_ms: int
    max_ms: int
