"""Decisions by access control lists, as Kafka's StandardAuthorizer makes them. Pure.

A binding is for a resource if it is literal and has the resource's name or `*`, or prefixed and the name begins with
its own. Of those that are for the resource, the principal, the address and the operation, one that denies decides
before any that allows. Who may read, write, delete or alter may describe as well, and who may alter settings may
describe them; a denial implies nothing. Super users are not asked for.

`AclTable` is made of all bindings at once and answers in a few look-ups: the literal ones are found by name, and the
prefixed ones by each length that any prefix has.

Source: StandardAuthorizerData of Kafka 4 (rules), Authorizer.authorizeByResourceType (KIP-679).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla_core.acls import WILDCARD, AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.plain_address import plain_address
from ottla_core.principal import USER, Principal

IMPLIES_DESCRIBE: Final = frozenset(
    {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
IMPLIES_DESCRIBE_CONFIGS: Final = frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS})
EVERYBODY: Final = str(Principal(USER, WILDCARD))
"""The principal of bindings that are for every principal."""
QUESTIONS_REMEMBERED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and why.

    Attributes:
        binding: the one that decides; None if none is for the principal, or no binding is for the resource at all.
        found_any: whether any binding is for the resource, whomever it is for.
    """

    is_allowed: bool
    binding: AclBinding | None = None
    found_any: bool = False


class AclTable:
    """All bindings, in the order in which they are looked up."""

    def __init__(self, bindings: Iterable[AclBinding]) -> None:
        literal: dict[tuple[ResourceKind, str], list[AclBinding]] = defaultdict(list)
        prefixed: dict[tuple[ResourceKind, str], list[AclBinding]] = defaultdict(list)
        by_kind: dict[ResourceKind, list[AclBinding]] = defaultdict(list)
        lengths: dict[ResourceKind, set[int]] = defaultdict(set)
        for written in bindings:
            host = plain_address(written.host)
            binding = written if host == written.host else replace(written, host=host)
            by_kind[binding.kind].append(binding)
            if binding.pattern is PatternType.LITERAL:
                literal[binding.kind, binding.name].append(binding)
            else:
                prefixed[binding.kind, binding.name].append(binding)
                lengths[binding.kind].add(len(binding.name))
        self._literal: Mapping[tuple[ResourceKind, str], list[AclBinding]] = dict(literal)
        self._prefixed: Mapping[tuple[ResourceKind, str], list[AclBinding]] = dict(prefixed)
        self._by_kind: Mapping[ResourceKind, list[AclBinding]] = dict(by_kind)
        self._prefix_lengths: Mapping[ResourceKind, list[int]] = {
            kind: sorted(each) for kind, each in lengths.items()
        }
        self._some_allowed: dict[tuple[Principal, str, AclOperation, ResourceKind], bool] = {}

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        kind: ResourceKind,
        name: str,
        *,
        without_any: bool = False,
    ) -> Decision:
        """Return whether a principal that comes from an address may do an operation on a resource.

        Args:
            principal: who asks.
            host: the address that the principal comes from.
            operation: what it wants to do.
            kind: of the resource.
            name: of the resource.
            without_any: whether everything is allowed on a resource for which there is no binding at all.
        """
        named = str(principal)
        allowing: AclBinding | None = None
        found_any = False
        for binding in self._for_resource(kind, name):
            found_any = True
            if not _is_for(binding, named, host) or not _covers(binding, operation):
                continue
            if binding.permission is Permission.DENY:
                return Decision(is_allowed=False, binding=binding, found_any=True)
            allowing = allowing or binding
        if allowing is not None:
            return Decision(is_allowed=True, binding=allowing, found_any=True)
        return Decision(is_allowed=without_any and not found_any, found_any=found_any)

    def allows_some(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceKind) -> bool:
        """Return whether a principal may do an operation on at least one resource that might exist.

        An operation is not implied by another one here, as in Kafka. All bindings of the kind are gone through once
        for each question, as the answer is remembered.
        """
        question = (principal, host, operation, kind)
        is_allowed = self._some_allowed.get(question)
        if is_allowed is None:
            if len(self._some_allowed) >= QUESTIONS_REMEMBERED_MAX:
                self._some_allowed.clear()
            is_allowed = self._some_allowed[question] = self._decide_some(principal, host, operation, kind)
        return is_allowed

    def _decide_some(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceKind) -> bool:
        named = str(principal)
        mine = [
            binding
            for binding in self._by_kind.get(kind, ())
            if _is_for(binding, named, host) and binding.operation in {None, operation}
        ]
        denials = [binding for binding in mine if binding.permission is Permission.DENY]
        names = {each.name for each in denials if each.pattern is PatternType.LITERAL}
        prefixes = {each.name for each in denials if each.pattern is PatternType.PREFIXED}
        if WILDCARD in names:
            return False
        lengths = sorted({len(prefix) for prefix in prefixes})
        return any(
            not _is_denied_whole(binding, names, prefixes, lengths)
            for binding in mine
            if binding.permission is Permission.ALLOW
        )

    def _for_resource(self, kind: ResourceKind, name: str) -> Iterable[AclBinding]:
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        for length in self._prefix_lengths.get(kind, ()):
            if length > len(name):
                return
            yield from self._prefixed.get((kind, name[:length]), ())


def _is_for(binding: AclBinding, principal: str, host: str) -> bool:
    return binding.principal in {principal, EVERYBODY} and binding.host in {host, WILDCARD}


def _covers(binding: AclBinding, operation: AclOperation) -> bool:
    found = binding.operation
    if found is None or found is operation:
        return True
    if binding.permission is Permission.DENY:
        return False
    if operation is AclOperation.DESCRIBE:
        return found in IMPLIES_DESCRIBE
    return operation is AclOperation.DESCRIBE_CONFIGS and found in IMPLIES_DESCRIBE_CONFIGS


def _is_denied_whole(
    allowing: AclBinding, names: Collection[str], prefixes: Collection[str], prefix_lengths: Sequence[int]
) -> bool:
    """Return whether everything that a binding allows is denied, by name or by prefix."""
    if allowing.pattern is PatternType.LITERAL and (allowing.name == WILDCARD or allowing.name in names):
        return allowing.name in names
    return any(allowing.name[:length] in prefixes for length in prefix_lengths if length <= len(allowing.name))
