"""What is remembered of decisions is bounded, whatever names clients ask for."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ottla_broker import authorization
from ottla_broker.authorization import DENIALS, NAME_CHARACTERS_REMEMBERED_MAX, Authorization
from ottla_core.acls import WILDCARD, AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.authorized_operations import OPERATIONS
from ottla_core.principal import Principal
from tests.support.broker.access_lists import authorization_by

ANN = Principal("User", "ann")
WRITES_ALL = AclBinding(
    kind=ResourceKind.TOPIC,
    pattern=PatternType.LITERAL,
    name=WILDCARD,
    principal=str(ANN),
    host="*",
    operation=AclOperation.WRITE,
    permission=Permission.ALLOW,
)


def request_of(principal: Principal) -> Any:
    connection = SimpleNamespace(principal=principal, address="10.0.0.7", listener_name="A", topic_rights=None)
    return SimpleNamespace(connection=connection, header=SimpleNamespace(api_key=3, client_id="c"))


def authorizer() -> Authorization:
    return authorization_by([WRITES_ALL])


def may_describe(authorizer: Authorization, request: Any, name: str) -> bool:
    return authorizer.permits(request, AclOperation.DESCRIBE, ResourceKind.TOPIC, name)


def test_a_name_longer_than_any_topic_is_not_remembered() -> None:
    decides, ann, stranger = authorizer(), request_of(ANN), request_of(Principal("User", "eve"))
    long = "n" * (NAME_CHARACTERS_REMEMBERED_MAX + 1)
    for name in (long, long[1:]):
        assert may_describe(decides, ann, name)
        assert not may_describe(decides, stranger, name)
        decides.check_topic(ann, AclOperation.WRITE, name)
    assert {question[-1] for question in decides._decisions} == {long[1:]}
    assert ann.connection.topic_rights.written == {long[1:]}


def test_remembered_names_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorization, "NAMES_REMEMBERED_BYTES_MAX", 10_000)
    decides, stranger = authorizer(), request_of(Principal("User", "eve"))
    most = 0
    for number in range(1000):
        assert not may_describe(decides, stranger, f"{number}\N{GRINNING FACE}{'n' * 100}")
        most = max(most, sum(sys.getsizeof(question[-1]) for question in decides._decisions))
    assert 5_000 < most <= 10_000


def test_each_kind_of_resource_has_operations_and_an_error() -> None:
    assert OPERATIONS.keys() == DENIALS.keys() == set(ResourceKind)
