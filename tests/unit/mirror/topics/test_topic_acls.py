"""Which access control lists of topics go along to their copies: MirrorMaker's rules."""

from dataclasses import replace

from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_mirror.topics.topic_acls import missing_bindings

COPIES = {"orders": "A.orders"}
READS = AclBinding(
    kind=ResourceKind.TOPIC,
    pattern=PatternType.LITERAL,
    name="orders",
    principal="User:ann",
    host="*",
    operation=AclOperation.READ,
    permission=Permission.ALLOW,
)
COPIED = replace(READS, name="A.orders")


def test_a_right_to_read_goes_along_under_the_copys_name():
    assert missing_bindings([READS], [], COPIES) == [COPIED]


def test_what_is_there_is_not_created_again():
    assert missing_bindings([READS], [COPIED], COPIES) == []


def test_nobody_is_allowed_to_write_into_a_copy():
    assert missing_bindings([replace(READS, operation=AclOperation.WRITE)], [], COPIES) == []
    assert missing_bindings([replace(READS, operation=None)], [], COPIES) == [COPIED]


def test_what_denies_goes_along_whole():
    denials = [
        replace(READS, operation=None, permission=Permission.DENY),
        replace(READS, operation=AclOperation.WRITE, permission=Permission.DENY),
    ]
    assert missing_bindings(denials, [], COPIES) == [replace(each, name="A.orders") for each in denials]


def test_bindings_for_other_topics_for_many_topics_and_for_groups_stay_behind():
    others = [
        replace(READS, name="payments"),
        replace(READS, name="*"),
        replace(READS, pattern=PatternType.PREFIXED),
        replace(READS, kind=ResourceKind.GROUP),
    ]
    assert missing_bindings(others, [], COPIES) == []


def test_bindings_that_become_one_are_created_once():
    assert missing_bindings([READS, replace(READS, operation=None)], [], COPIES) == [COPIED]
