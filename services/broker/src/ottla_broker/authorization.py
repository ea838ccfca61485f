"""The one place that says what a request may do.

Handlers, and the checks that stand before them (`access/`), ask here whether an operation on a resource is allowed.
Without an authorizer (`authorizer.class.name`) everything is, as in Kafka. Otherwise the authorizer decides
(`client_plugins/`). Its decisions are remembered as long as they hold: the standard authorizer's until the access
control lists of the cluster's state are other ones, so that a change of theirs holds from the next question on, on
connections that are open as well.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog
from kio.static.primitive import i32

from ottla_broker.audit.audit_log import AuditLog
from ottla_broker.audit.audit_records import TEXT_CHARACTERS_MAX, Caller
from ottla_core.acls import CLUSTER_NAME, AclOperation, ResourceKind
from ottla_core.authorized_operations import OPERATIONS, operation_bits
from ottla_core.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from ottla_core.principal import Principal

if TYPE_CHECKING:
    from ottla_broker.broker import Request
    from ottla_broker.client_plugins.guarded_authorizer import GuardedAuthorizer

DECISIONS_REMEMBERED_MAX: Final = 100_000
"""Decisions that are remembered of all clients together; then they are forgotten, and made anew."""

NAME_CHARACTERS_REMEMBERED_MAX: Final = 249
"""The longest name of a topic, as in Kafka. What concerns a longer name is decided anew each time: a client chooses
the names that it asks for, whatever its rights, and could have the broker keep a request full of them."""

NAMES_REMEMBERED_BYTES_MAX: Final = 32 * 1024 * 1024
"""The memory of the names in all remembered decisions; then they are forgotten as well."""

DENIALS: Final[Mapping[ResourceKind, type[KafkaError]]] = {
    ResourceKind.TOPIC: TopicAuthorizationFailed,
    ResourceKind.GROUP: GroupAuthorizationFailed,
    ResourceKind.CLUSTER: ClusterAuthorizationFailed,
    ResourceKind.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceKind.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    ResourceKind.USER: DelegationTokenAuthorizationFailed,
}
"""What a client is told that may not do something with a resource of a kind."""

DELETION_OF_ALL_TOPICS: Final = (ResourceKind.CLUSTER, AclOperation.DELETE)
"""Asked for as by Kafka, though only a binding for all operations can allow it."""

TOPICS_REMEMBERED_MAX: Final = 1_000
"""Topics that are remembered of one connection, for each of reading and writing."""

DATA_OPERATIONS: Final = frozenset({AclOperation.READ, AclOperation.WRITE})

AUTHORIZER_FAILED: Final[Mapping[str, int]] = {"AUTHORIZER_FAILED": 1}
"""What the audit log says of a denial that is no decision."""

Question = tuple[Principal, str, AclOperation, ResourceKind, str]
"""Who, from which address, wants to do what with which resource."""

log = structlog.get_logger("authorizer")


class _TopicRights:
    """The topics that a client may write to and read, as long as decisions stand on `basis`."""

    __slots__ = ("basis", "read", "written")

    def __init__(self, basis: object) -> None:
        self.basis = basis
        self.written: set[str] = set()
        self.read: set[str] = set()


class Authorization:
    """Decides what requests may do.

    Args:
        authorizer: decides; None if there is none.
        audit: records what is refused, and on request who writes and reads; None if nothing is recorded.

    Attributes:
        is_on: whether there is an authorizer.
        uses_access_lists: whether it goes by access control lists, so that these may be asked for and changed.
        authorizer: decides.
        denials: how often something was refused, by kind of resource.
    """

    def __init__(self, authorizer: "GuardedAuthorizer | None" = None, audit: AuditLog | None = None) -> None:
        self.is_on = authorizer is not None
        self.uses_access_lists = authorizer is not None and authorizer.uses_access_lists
        self.authorizer = authorizer
        self.denials: Counter[ResourceKind] = Counter()
        self._basis = _no_basis if authorizer is None else authorizer.basis
        self._audit = audit
        self._records_data = audit is not None and audit.has_data
        self._known: object = None
        self._versions = 0
        self._decisions: dict[Question, bool] = {}
        self._names_bytes = 0

    def permits(
        self, request: "Request", operation: AclOperation, kind: ResourceKind, name: str, *, is_listing: bool = False
    ) -> bool:
        """Return whether the principal of a request may do an operation.

        Args:
            request: its principal and address count.
            operation: one that this kind of resource has.
            kind: of resource.
            name: of the resource; `CLUSTER_NAME` for the cluster.
            is_listing: whether the client has not named the resource, or has other rights that would do; a refusal is
                then no attempt of the client at what it may not do.
        """
        assert operation in OPERATIONS[kind] or (kind, operation) == DELETION_OF_ALL_TOPICS, "no such operation"
        if not self.is_on:
            return True
        connection = request.connection
        question = (connection.principal, connection.address, operation, kind, name)
        is_allowed = self._decision(question)
        if not is_allowed and not is_listing:
            self._note_denial(request, question, has_failed=is_allowed is None)
        elif self._records_data and is_allowed and operation in DATA_OPERATIONS and kind is ResourceKind.TOPIC:
            assert self._audit is not None
            self._audit.note_access(caller_of(request), operation.name, f"{kind.name}:{name}")
        return bool(is_allowed)

    @property
    def rights_version(self) -> int:
        """Another number whenever what clients may do may have changed."""
        self._look_at_basis()
        return self._versions

    def may_describe(self, principal: Principal, address: str, topic: str) -> bool:
        """Return whether a principal may describe a topic, which it has not named itself."""
        return not self.is_on or bool(
            self._decision((principal, address, AclOperation.DESCRIBE, ResourceKind.TOPIC, topic))
        )

    def _decision(self, question: Question) -> bool | None:
        """Return what is decided, if that is remembered, and otherwise ask; None if the authorizer has failed."""
        self._look_at_basis()
        is_allowed = self._decisions.get(question)
        return self._decide(question) if is_allowed is None else is_allowed

    def _look_at_basis(self) -> None:
        """Forget decisions that stand on something else than decisions of now."""
        basis = self._basis()
        if basis is not self._known:
            self._known = basis
            self._versions += 1
            self._forget_decisions()

    def _note_denial(self, request: "Request", question: Question, *, has_failed: bool) -> None:
        principal, host, operation, kind, name = question
        self.denials[kind] += 1
        log.debug(
            "denied",
            principal=str(principal),
            host=host,
            operation=operation.name,
            resource=f"{kind.name}:{name}",
            api=request.header.api_key,
        )
        if self._audit is not None:
            errors = AUTHORIZER_FAILED if has_failed else None
            self._audit.note_denial(caller_of(request), operation.name, f"{kind.name}:{name}", errors)

    def check(self, request: "Request", operation: AclOperation, kind: ResourceKind, name: str) -> None:
        """See that a request may do an operation.

        Raises:
            KafkaError: it may not; one of `DENIALS`.
        """
        if not self.permits(request, operation, kind, name):
            raise denial(kind)

    def check_topic(self, request: "Request", operation: AclOperation, topic: str) -> None:
        """See that a request may write to a topic or read it, which is asked for each batch and each partition.

        Raises:
            TopicAuthorizationFailed: it may not.
        """
        connection = request.connection
        rights, basis = connection.topic_rights, self._basis()
        if not isinstance(rights, _TopicRights) or rights.basis is not basis:
            rights = connection.topic_rights = _TopicRights(basis)
        known = rights.written if operation is AclOperation.WRITE else rights.read
        if topic in known and not self._records_data:
            return
        if not self.permits(request, operation, ResourceKind.TOPIC, topic):
            raise denial(ResourceKind.TOPIC)
        if len(topic) > NAME_CHARACTERS_REMEMBERED_MAX:
            return
        if len(known) >= TOPICS_REMEMBERED_MAX:
            known.clear()
        known.add(topic)

    def permits_on_cluster(self, request: "Request", operation: AclOperation, *, is_listing: bool = False) -> bool:
        """Return whether a request may do an operation on the cluster."""
        return self.permits(request, operation, ResourceKind.CLUSTER, CLUSTER_NAME, is_listing=is_listing)

    def permits_some(self, request: "Request", operation: AclOperation, kind: ResourceKind) -> bool:
        """Return whether a request may do an operation on any resource of a kind that there might be."""
        if self.authorizer is None:
            return True
        return self.authorizer.decide_any(request.principal, request.connection.address, operation, kind)

    def operations_on(self, request: "Request", kind: ResourceKind, name: str) -> i32:
        """Return the operations that a request may do with a resource, as responses tell them."""
        permitted = (each for each in OPERATIONS[kind] if self.permits(request, each, kind, name, is_listing=True))
        return operation_bits(permitted)

    def operations_on_cluster(self, request: "Request") -> i32:
        """Return the operations that a request may do with the cluster; none if it may not even see these."""
        if not self.permits_on_cluster(request, AclOperation.DESCRIBE, is_listing=True):
            return i32(0)
        return self.operations_on(request, ResourceKind.CLUSTER, CLUSTER_NAME)

    def is_super_user(self, principal: Principal) -> bool:
        """Return whether a principal may do everything; without an authorizer all may."""
        return self.authorizer is None or self.authorizer.allows_everything(principal)

    def _decide(self, question: Question) -> bool | None:
        """Ask the authorizer; None, which is not remembered, if it has failed."""
        assert self.authorizer is not None
        name = question[-1]
        is_allowed = self.authorizer.decide(*question)
        if is_allowed is not None and len(name) <= NAME_CHARACTERS_REMEMBERED_MAX:
            self._remember(question, sys.getsizeof(name), is_allowed=is_allowed)
        return is_allowed

    def _remember(self, question: Question, name_bytes: int, *, is_allowed: bool) -> None:
        is_full = self._names_bytes + name_bytes > NAMES_REMEMBERED_BYTES_MAX
        if is_full or len(self._decisions) >= DECISIONS_REMEMBERED_MAX:
            self._forget_decisions()
        self._decisions[question] = is_allowed
        self._names_bytes += name_bytes

    def _forget_decisions(self) -> None:
        self._decisions.clear()
        self._names_bytes = 0


def _no_basis() -> None:
    """Return what decisions stand on without an authorizer."""


def caller_of(request: "Request") -> Caller:
    """Return who makes a request, as the audit log has it."""
    connection, header = request.connection, request.header
    return Caller(
        principal=str(connection.principal)[:TEXT_CHARACTERS_MAX],
        address=connection.address,
        listener=connection.listener_name,
        client_id=(header.client_id or "")[:TEXT_CHARACTERS_MAX],
        api_key=header.api_key,
    )


def denial(kind: ResourceKind) -> KafkaError:
    """Return the error for a client that may not do something with a resource; it tells nothing of the resource."""
    return DENIALS[kind](f"{kind.name.capitalize().replace('_', ' ')} authorization failed.")
