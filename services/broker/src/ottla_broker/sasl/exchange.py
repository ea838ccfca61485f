"""What the server's side of a SASL mechanism says and asks. Pure.

A mechanism is an `Exchange`: it takes each message of the client and returns a step. A step is for the client
(`Challenge`), ends the exchange (`Accepted`, `Refused`), or is a question to the caller
(`CredentialWanted`, `TokenShown`), whose answer is given to the exchange and leads to the next step.
"""

from dataclasses import dataclass, field
from typing import Protocol

from ottla_core.cluster.state.security import ScramCredential
from ottla_core.principal import Principal

MESSAGE_BYTES_MAX = 16 * 1024
"""Longest message of PLAIN and SCRAM; names and passwords are shorter."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A message to the client, whose answer goes on with the exchange.

    Attributes:
        message: it.
        refusal: why the client is not believed already, for the broker's log; empty where that is open. The answer
            then only ends the exchange, and need not come.
    """

    message: bytes
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The client is who it says.

    Attributes:
        principal: who it is.
        message: the last message to the client.
        expires_ms: when the credential expires, in milliseconds since 1970; None: never.
        by_token: whether a delegation token proved it.
    """

    principal: Principal
    message: bytes = b""
    expires_ms: int | None = None
    by_token: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The client is not believed.

    Attributes:
        reason: for the broker's log only; what the client is told tells no reasons apart.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class CredentialWanted:
    """Asks for the credential of a user, or of a delegation token; `Scram.go_on` takes the answer."""

    name: str
    of_token: bool


@dataclass(frozen=True, slots=True)
class TokenShown:
    """Asks for a judgement of a bearer token; `Bearer.judge` takes it."""

    token: str = field(repr=False)


Step = Challenge | Accepted | Refused
Question = CredentialWanted | TokenShown


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCredential:
    """The answer to `CredentialWanted`.

    Attributes:
        credential: to check the proof by; one that fits no password where the name is unknown.
        is_known: whether the name is known.
        principal: who somebody is that knows the password.
        expires_ms: when a token expires; None for users.
    """

    credential: ScramCredential
    is_known: bool
    principal: Principal
    expires_ms: int | None = None


class Exchange(Protocol):
    """One authentication, on the server's side."""

    def respond(self, message: bytes) -> Step | Question:
        """Take a message of the client. After `Accepted` or `Refused` every message is refused."""
