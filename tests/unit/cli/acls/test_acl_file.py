"""Access control lists in words and in files."""

import pytest

from ottla.acls.acl_file import changes_to, read_acl_file
from ottla_core.acls import AclOperation, PatternType, Permission, ResourceKind
from ottla_operations.acls.binding_words import binding_of, document_of
from ottla_operations.errors import OperationError

TEXT = """
principals:
  flights:
    - allow: [read, write]
      resources: [topic:flights-*, topic:weather]
    - deny: delete
      resources: cluster
      host: [10.0.0.5, 10.0.0.6]
  User:eve:
"""


@pytest.mark.parametrize(
    ("words", "kind", "pattern", "name"),
    [
        ("topic:flights", ResourceKind.TOPIC, PatternType.LITERAL, "flights"),
        ("topic:flights-*", ResourceKind.TOPIC, PatternType.PREFIXED, "flights-"),
        ("topic:*", ResourceKind.TOPIC, PatternType.LITERAL, "*"),
        ("group:a:b", ResourceKind.GROUP, PatternType.LITERAL, "a:b"),
        ("transactional-id:t", ResourceKind.TRANSACTIONAL_ID, PatternType.LITERAL, "t"),
        ("cluster", ResourceKind.CLUSTER, PatternType.LITERAL, "kafka-cluster"),
    ],
)
def test_resources_are_written_and_shown_alike(
    words: str, kind: ResourceKind, pattern: PatternType, name: str
) -> None:
    binding = binding_of(words, "ada", "describe-configs")
    assert (binding.kind, binding.pattern, binding.name) == (kind, pattern, name)
    assert (binding.principal, binding.operation) == ("User:ada", AclOperation.DESCRIBE_CONFIGS)
    assert document_of(binding)["resource"] == words


@pytest.mark.parametrize(
    ("resource", "operation", "named"),
    [("table:t", "read", "table"), ("topic", "read", "topic:flights"), ("topic:t", "look", "look")],
)
def test_words_that_stand_for_nothing_are_named(resource: str, operation: str, named: str) -> None:
    with pytest.raises(OperationError, match=named):
        binding_of(resource, "ada", operation)


def test_a_file_says_everything_about_the_principals_that_it_names() -> None:
    wanted = read_acl_file(TEXT, "rights.yaml")
    assert wanted.principals == {"User:flights", "User:eve"}
    assert len(wanted.bindings) == 6
    kept = binding_of("topic:weather", "flights", "read")
    gone = binding_of("topic:weather", "eve", "read")
    others = binding_of("topic:weather", "ann", "read")
    changes = changes_to(wanted, [kept, gone, others])
    assert changes.removed == {gone}
    assert kept not in changes.added
    assert len(changes.added) == 5
    denial = binding_of("cluster", "flights", "delete", host="10.0.0.6", permission=Permission.DENY)
    assert denial in changes.added
    assert changes_to(wanted, [*wanted.bindings, others]).added == frozenset()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[", "no YAML"),
        ("users: {}", "principals"),
        ("principals: [a]", "no mapping"),
        ("principals: {a: {allow: read}}", "a: not a list"),
        ("principals: {a: [read]}", "entry 1"),
        ("principals: {a: [{allow: read}]}", "entry 1: an entry has one of"),
        ("principals: {a: [{allow: read, deny: read, resources: cluster}]}", "one of allow and deny"),
        ("principals: {a: [{allow: read, resources: cluster, when: now}]}", "when is not known"),
        ("principals: {a: [{allow: [], resources: cluster}]}", "not a word"),
        ("principals: {a: [{allow: 1, resources: cluster}]}", "not a word"),
        ("principals: {a: [{allow: fly, resources: cluster}]}", "entry 1: no operation is called 'fly'"),
    ],
)
def test_what_is_wrong_with_a_file_is_named_with_its_place(text: str, named: str) -> None:
    with pytest.raises(OperationError, match=named):
        read_acl_file(text, "rights.yaml")
