"""Decisions by access control lists."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.acl_filters import AclFilter, PatternFilter, check_binding
from ottla_core.acl_table import AclTable
from ottla_core.acls import WILDCARD, AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.errors import InvalidRequest
from ottla_core.principal import Principal

ADA = Principal("User", "ada")
HOST = "10.0.0.1"
READ, WRITE, DESCRIBE, ALTER = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER
TOPIC = ResourceKind.TOPIC


def binding(
    name: str = "flights",
    operation: AclOperation | None = READ,
    *,
    denies: bool = False,
    prefixed: bool = False,
    principal: str = "User:ada",
    host: str = WILDCARD,
    kind: ResourceKind = TOPIC,
) -> AclBinding:
    return AclBinding(
        kind=kind,
        pattern=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        name=name,
        principal=principal,
        host=host,
        operation=operation,
        permission=Permission.DENY if denies else Permission.ALLOW,
    )


def allows(
    bindings: list[AclBinding], operation: AclOperation = READ, name: str = "flights", *, without_any: bool = False
) -> bool:
    return AclTable(bindings).decide(ADA, HOST, operation, TOPIC, name, without_any=without_any).is_allowed


@pytest.mark.parametrize(
    ("bindings", "is_allowed"),
    [
        ([], False),
        ([binding()], True),
        ([binding("weather")], False),
        ([binding(WILDCARD)], True),
        ([binding("fli", prefixed=True)], True),
        ([binding("flights-", prefixed=True)], False),
        ([binding("fli")], False),
        ([binding(principal="User:*")], True),
        ([binding(principal="User:eve")], False),
        ([binding(principal="Group:ada")], False),
        ([binding(host=HOST)], True),
        ([binding(host="10.0.0.2")], False),
        ([binding(operation=None)], True),
        ([binding(operation=WRITE)], False),
        ([binding(kind=ResourceKind.GROUP)], False),
        ([binding(), binding(denies=True)], False),
        ([binding(), binding("f", denies=True, prefixed=True)], False),
        ([binding(), binding(WILDCARD, None, denies=True, principal="User:*")], False),
        ([binding(), binding(denies=True, principal="User:eve")], True),
        ([binding(), binding(operation=WRITE, denies=True)], True),
    ],
)
def test_a_denial_decides_before_what_allows_in_whatever_order(bindings: list[AclBinding], is_allowed: bool) -> None:
    for order in permutations(bindings):
        assert allows(list(order)) is is_allowed


@pytest.mark.parametrize(
    ("found", "asked", "is_allowed"),
    [
        (READ, DESCRIBE, True),
        (WRITE, DESCRIBE, True),
        (AclOperation.DELETE, DESCRIBE, True),
        (ALTER, DESCRIBE, True),
        (AclOperation.CREATE, DESCRIBE, False),
        (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS, True),
        (ALTER, AclOperation.DESCRIBE_CONFIGS, False),
        (DESCRIBE, READ, False),
    ],
)
def test_who_may_change_may_describe(found: AclOperation, asked: AclOperation, is_allowed: bool) -> None:
    assert allows([binding(operation=found)], asked) is is_allowed


def test_a_denial_implies_nothing() -> None:
    assert allows([binding(operation=DESCRIBE), binding(operation=READ, denies=True)], DESCRIBE)


def test_a_resource_without_bindings_may_be_open_to_everybody() -> None:
    assert allows([], without_any=True)
    assert allows([binding("weather")], without_any=True)
    assert not allows([binding(principal="User:eve")], without_any=True)


@pytest.mark.parametrize(
    ("bindings", "allows_some"),
    [
        ([], False),
        ([binding(operation=WRITE)], True),
        ([binding(operation=READ)], False),
        ([binding(operation=None)], True),
        ([binding(operation=WRITE), binding(operation=WRITE, denies=True)], False),
        ([binding(operation=WRITE), binding("f", WRITE, denies=True, prefixed=True)], False),
        ([binding("f", WRITE, prefixed=True), binding("fl", WRITE, denies=True, prefixed=True)], True),
        ([binding("fl", WRITE, prefixed=True), binding("f", WRITE, denies=True, prefixed=True)], False),
        ([binding("f", WRITE, prefixed=True), binding("f", WRITE, denies=True)], True),
        ([binding(WILDCARD, WRITE), binding("f", WRITE, denies=True, prefixed=True)], True),
        ([binding(WILDCARD, WRITE), binding(WILDCARD, WRITE, denies=True)], False),
    ],
)
def test_whether_there_may_be_any_resource_that_a_client_may_write_to(
    bindings: list[AclBinding], allows_some: bool
) -> None:
    assert AclTable(bindings).allows_some(ADA, HOST, WRITE, TOPIC) is allows_some


NAMES = st.text("ab*", min_size=1, max_size=4)
BINDINGS = st.lists(
    st.builds(
        binding,
        NAMES,
        st.sampled_from([None, READ, WRITE, DESCRIBE]),
        denies=st.booleans(),
        prefixed=st.booleans(),
        principal=st.sampled_from(["User:ada", "User:*", "User:eve"]),
        host=st.sampled_from([WILDCARD, HOST, "10.0.0.2"]),
    ),
    max_size=12,
)


@given(bindings=BINDINGS, name=NAMES, operation=st.sampled_from([READ, WRITE, DESCRIBE]))
def test_the_table_decides_as_a_walk_over_all_bindings(
    bindings: list[AclBinding], name: str, operation: AclOperation
) -> None:
    implying = {READ, WRITE, DESCRIBE} if operation is DESCRIBE else {operation}

    def matches(each: AclBinding) -> bool:
        covered = {operation} if each.permission is Permission.DENY else implying
        of_resource = (
            name.startswith(each.name) if each.pattern is PatternType.PREFIXED else each.name in {name, WILDCARD}
        )
        return (
            of_resource
            and each.principal in {"User:ada", "User:*"}
            and each.host in {WILDCARD, HOST}
            and (each.operation is None or each.operation in covered)
        )

    found = [each for each in bindings if matches(each)]
    expected = bool(found) and not any(each.permission is Permission.DENY for each in found)
    assert allows(bindings, operation, name) is expected


@pytest.mark.parametrize(
    ("wanted", "finds"),
    [
        (AclFilter(), True),
        (AclFilter(kind=TOPIC, name="flights-"), True),
        (AclFilter(name="flights-1"), False),
        (AclFilter(name="flights-1", pattern=PatternFilter.MATCH), True),
        (AclFilter(name="weather", pattern=PatternFilter.MATCH), False),
        (AclFilter(pattern=PatternFilter.LITERAL), False),
        (AclFilter(pattern=PatternFilter.PREFIXED), True),
        (AclFilter(operation=READ), True),
        (AclFilter(operation=2), False),
        (AclFilter(permission=Permission.DENY), False),
        (AclFilter(principal="User:ada", host=WILDCARD), True),
        (AclFilter(principal="User:eve"), False),
        (AclFilter(kind=ResourceKind.GROUP), False),
    ],
)
def test_filters_find_bindings(wanted: AclFilter, finds: bool) -> None:
    assert wanted.finds(binding("flights-", prefixed=True)) is finds


@pytest.mark.parametrize(
    "wrong",
    [
        binding(""),
        binding("my-cluster", kind=ResourceKind.CLUSTER),
        binding(principal="ada"),
        binding(principal="User:"),
        binding(host=""),
    ],
)
def test_a_binding_that_cannot_be_for_anything_is_refused(wrong: AclBinding) -> None:
    with pytest.raises(InvalidRequest):
        check_binding(wrong)


@given(bindings=BINDINGS)
def test_some_resource_is_allowed_if_an_allowance_is_not_denied_whole(bindings: list[AclBinding]) -> None:
    def denies_whole(denial: AclBinding, allowing: AclBinding) -> bool:
        if denial.pattern is PatternType.PREFIXED:
            is_for_all = allowing.pattern is PatternType.LITERAL and allowing.name == WILDCARD
            return not is_for_all and allowing.name.startswith(denial.name)
        return allowing.pattern is PatternType.LITERAL and denial.name == allowing.name

    mine = [
        each
        for each in bindings
        if each.operation in {None, WRITE}
        and each.principal in {str(ADA), "User:*"}
        and each.host in {WILDCARD, HOST}
    ]
    denials = [each for each in mine if each.permission is Permission.DENY]
    of_everything = any(each.pattern is PatternType.LITERAL and each.name == WILDCARD for each in denials)
    expected = not of_everything and any(
        not any(denies_whole(denial, each) for denial in denials)
        for each in mine
        if each.permission is Permission.ALLOW
    )
    table = AclTable(bindings)
    assert [table.allows_some(ADA, HOST, WRITE, TOPIC) for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize("written", ["2001:DB8::1", "2001:db8:0:0:0:0:0:1", "2001:0db8::0001"])
def test_an_address_counts_however_it_is_written(written: str) -> None:
    table = AclTable([binding(operation=WRITE, host=written)])
    assert table.decide(ADA, "2001:db8::1", WRITE, TOPIC, "flights").is_allowed
    assert not table.decide(ADA, "2001:db8::2", WRITE, TOPIC, "flights").is_allowed
