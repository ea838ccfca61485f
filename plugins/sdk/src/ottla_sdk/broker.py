"""What may be replaced in brokers: who a client is (KIP-189), and what it may do (KIP-504). Pure.

A broker makes one instance of the class that `authorizer.class.name` names, and one of `principal.builder.class`,
configures them with those of its settings that begin with `authorizer.` or `principal.builder.`, and asks them on its
event loop. All methods but `start` must answer from memory: they must neither wait nor reach out to other systems, as
every client of the broker waits meanwhile. What has to be asked elsewhere is fetched by a thread that `start` begins,
and looked up in what that thread has left.

Names and numbers of operations and resources are Kafka's.
"""

from abc import abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Generic, Protocol

from ottla_sdk.plugin import ConfigT, Plugin


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a client is; `TYPE:NAME` in access control lists and in `super.users`.

    Attributes:
        kind: `User`, or another one that a builder of principals has made up.
        name: of the user.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Operation(IntEnum):
    """What a client wants to do with a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What a client wants to do something with."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A question to an authorizer: may this client do this?

    Attributes:
        principal: who asks.
        host: the address that the client has, as text.
        operation: what it wants to do.
        resource_type: what it wants to do that with.
        resource_name: of the resource, as the client has named it, so it may not exist; of the cluster
            `kafka-cluster`; empty where any resource of the type is meant.
    """

    principal: Principal
    host: str
    operation: Operation
    resource_type: ResourceType
    resource_name: str


class AccessControlLists(Protocol):
    """The access control lists of the cluster, as they are at the moment of the question."""

    def decide(self, request: AccessRequest) -> bool | None:
        """Return whether they allow a request; None if no list is for its resource at all."""

    def allow_any(self, request: AccessRequest) -> bool:
        """Return whether they allow the operation on any resource of the type that there might be."""


@dataclass(frozen=True, slots=True)
class AuthorizerContext:
    """What an authorizer is given of its broker.

    Attributes:
        cluster_name: of the cluster, as `cluster.name` has it.
        broker_id: of the broker.
        access_lists: those of the cluster.
    """

    cluster_name: str
    broker_id: int
    access_lists: AccessControlLists


class Authorizer(Plugin[ConfigT], Generic[ConfigT]):
    """Says what clients may do.

    The broker asks for each resource of each request, at the moment of the effect, and remembers the answers for
    `answers_hold_ms`, refusals as well. What `authorize` raises, or an answer other than True and False, counts as a
    refusal that is not remembered: the broker logs it, counts it in `ottla_broker_authorizer_failures_total`, and the
    audit log has it. Answers that take longer than 100 ms are logged and counted, too.

    Attributes:
        answers_hold_ms: milliseconds for which answers are remembered at most, 0: not at all; None: until the access
            control lists of the cluster change.
        uses_access_lists: whether it goes by the cluster's access control lists. Otherwise requests that create,
            list or delete them are answered with SECURITY_DISABLED, as nothing would follow from them.
        context: what it is given of the broker, from `start` on.
    """

    answers_hold_ms: ClassVar[int | None] = 1000
    uses_access_lists: ClassVar[bool] = False

    context: AuthorizerContext

    def start(self, context: AuthorizerContext) -> None:
        """Begin, before the broker joins its cluster: in a thread, and it may start threads of its own.

        Raises:
            FatalError: it cannot be used; the broker does not start.
        """
        self.context = context

    @abstractmethod
    def authorize(self, request: AccessRequest) -> bool:
        """Return whether a client may do an operation on a resource."""

    @abstractmethod
    def authorize_any(self, request: AccessRequest) -> bool:
        """Return whether a client may do an operation on any resource of the type; the name is empty.

        Kafka asks this of idempotent producers, which need no other right if they may write to any topic (KIP-679).
        """

    def allows_everything(self, principal: Principal) -> bool:
        """Return whether a principal may do everything, so that it need not be asked for each resource of a list."""
        return False

    def close(self) -> None:
        """Give back what was opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedClient:
    """What a broker knows of a client that it is to name.

    Attributes:
        default: who the client is by default: the user that has logged in, or the name in its certificate by
            `ssl.principal.mapping.rules`; `User:ANONYMOUS` if it has shown neither; None if no rule is for the name.
        address: that the client has, as text.
        listener: the name of the listener by which it came.
        security_protocol: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        mechanism: by which it has logged in, such as `SCRAM-SHA-512`; empty without a login.
        is_by_token: whether it has logged in with a delegation token.
        certificate: that it has shown, in DER; None if it has shown none.
    """

    default: Principal | None
    address: str
    listener: str
    security_protocol: str
    mechanism: str = ""
    is_by_token: bool = False
    certificate: bytes | None = None


class PrincipalRefused(Exception):
    """A client is nobody; the message stands in the broker's log and is not told to the client."""


class PrincipalBuilder(Plugin[ConfigT], Generic[ConfigT]):
    """Says who a client is that has connected, or logged in, or renewed its login.

    Brokers connect to each other as clients, and are named likewise. A renewed login must be the same principal's.
    What `build` raises refuses the client: its connection is closed, or its login fails.
    """

    @abstractmethod
    def build(self, client: AuthenticatedClient) -> Principal:
        """Return who a client is.

        Raises:
            PrincipalRefused: nobody that may connect.
        """

    def close(self) -> None:
        """Give back what was opened."""
