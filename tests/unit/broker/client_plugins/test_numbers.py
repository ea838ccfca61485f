"""The SDK's operations and kinds of resources have the names and numbers of the broker's own."""

from ottla_core.acls import AclOperation, ResourceKind
from ottla_sdk.broker import Operation, ResourceType


def test_operations_and_resources_are_those_of_the_broker() -> None:
    assert {each.name: each.value for each in Operation} == {each.name: each.value for each in AclOperation}
    assert {each.name: each.value for each in ResourceType} == {each.name: each.value for each in ResourceKind}
