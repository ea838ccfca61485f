"""Users, access control lists, quotas and audit records: as they are listed, and what forms may say."""

import pytest

from ottla_console.views.acl_table import (
    BadAcl,
    creation_plan,
    deletion_plan,
    plan_text,
    planned_bindings,
    selected_bindings,
    typed_bindings,
)
from ottla_console.views.audit_table import audit_rows
from ottla_console.views.quota_form import BadQuota, entity_fields, quota_rows, typed_entity, typed_quota
from ottla_console.views.user_form import BadUser, typed_mechanisms, typed_name, typed_password, user_rows
from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.state.security import ScramMechanism
from ottla_operations.acls.binding_words import binding_of

READ = binding_of("topic:flights-*", "flights", "read")
EVERY = binding_of("topic:*", "*", "describe")
DENIED = binding_of("topic:flights-2013", "flights", "delete", host="10.0.0.5", permission=Permission.DENY)
ALL = [READ, EVERY, DENIED]
LITERAL_STAR = AclBinding(
    kind=ResourceKind.GROUP,
    pattern=PatternType.LITERAL,
    name="odd*",
    principal="User:flights",
    host="*",
    operation=AclOperation.READ,
    permission=Permission.ALLOW,
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [EVERY, READ, DENIED]),
        ({"principal": "flights"}, [READ, DENIED]),
        ({"principal": "User:*"}, [EVERY]),
        ({"resource": "topic:flights-2013"}, [EVERY, READ, DENIED]),
        ({"resource": "topic:weather"}, [EVERY]),
        ({"resource": "topic:flights-*"}, [READ]),
        ({"resource": "topic:*"}, [EVERY]),
        ({"operation": "delete"}, [DENIED]),
        ({"permission": "allow", "principal": "flights"}, [READ]),
        ({"host": "10.0.0.5"}, [DENIED]),
    ],
)
def test_bindings_are_found_by_what_a_filter_says(wanted: dict[str, str], found: list[AclBinding]) -> None:
    assert selected_bindings(ALL, wanted) == found


def test_a_form_makes_a_binding_of_each_operation_and_resource() -> None:
    made = typed_bindings(
        {"principal": "ann", "operations": "read, write", "resources": "topic:a\r\ngroup:my group\n"}
    )
    assert len(made) == 4
    assert {each.name for each in made} == {"a", "my group"}
    assert {each.principal for each in made} == {"User:ann"}


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"operations": "read", "resources": "topic:a"}, "Who"),
        ({"principal": "ann", "resources": "topic:a"}, "What"),
        ({"principal": "ann", "operations": "read"}, "Of what"),
        ({"principal": "ann", "operations": "fly", "resources": "topic:a"}, "no operation is called"),
        ({"principal": "ann", "operations": "read", "resources": "a"}, "no kind of resource"),
        ({"principal": "User:", "operations": "read", "resources": "topic:a"}, "TYPE:NAME"),
        ({"principal": "a", "operations": "read", "resources": "topic:a", "permission": "perhaps"}, "allow or deny"),
        ({"principal": "a", "operations": "read", "resources": "topic:a\n" * 501}, "more than 500"),
    ],
)
def test_a_form_that_describes_no_binding_is_refused(form: dict[str, str], told: str) -> None:
    with pytest.raises(BadAcl, match=told):
        typed_bindings(form)


def test_a_plan_comes_back_from_its_form_exactly() -> None:
    assert planned_bindings(plan_text([*ALL, LITERAL_STAR])) == [*ALL, LITERAL_STAR]
    for text in (
        "",
        "[]",
        "{}",
        "[1]",
        '[["topic"]]',
        '[[2, 3, 1, "u", "h", 3, 3]]',
        '[[99, 3, "a", "u", "h", 3, 3]]',
    ):
        with pytest.raises(BadAcl):
            planned_bindings(text)


def test_plans_tell_what_is_there_already_and_whether_it_is_about_oneself() -> None:
    plan = creation_plan([READ, DENIED], [READ], "flights")
    assert (plan.bindings, plan.idle, plan.own) == ([DENIED], [READ], True)
    assert not creation_plan([READ], [], "flights").own
    assert deletion_plan([READ], "flights").own
    assert deletion_plan([EVERY], "ann").own
    assert not deletion_plan([DENIED], "flights").own
    assert not deletion_plan([READ], "").own


def test_users_are_listed_by_name() -> None:
    rows = user_rows({"bob": {ScramMechanism.SHA_256: 4096}, "Ann": {ScramMechanism.SHA_512: 8192}}, "a")
    assert [(row.name, row.mechanisms) for row in rows] == [("Ann", [("SCRAM-SHA-512", 8192)])]


def test_forms_of_users_are_checked() -> None:
    assert typed_name({"name": " ann "}) == "ann"
    for name in ("", "x" * 201, "a\x1bb"):
        with pytest.raises(BadUser):
            typed_name({"name": name})
    assert typed_password({"password": "a word", "again": "a word"}) == "a word"
    for password, again in (("", ""), ("a", "b"), ("x" * 1025, "x" * 1025)):
        with pytest.raises(BadUser) as told:
            typed_password({"password": password, "again": again})
        assert "xxx" not in str(told.value)
    assert typed_mechanisms({"sha512": "1", "sha256": "1"}) == [ScramMechanism.SHA_512, ScramMechanism.SHA_256]
    with pytest.raises(BadUser):
        typed_mechanisms({})


def test_quotas_are_listed_and_their_fields_mean_the_same_owner() -> None:
    quotas = {(("user", "ann"), ("client-id", None)): {"producer_byte_rate": 5.0}, (("ip", None),): {"x": 1.0}}
    rows = quota_rows(quotas, "")
    assert [row.whose for row in rows] == ["default ip", "user ann, default client-id"]
    for entity in quotas:
        assert typed_entity(entity_fields(entity)) == entity
    assert [row.value for row in quota_rows(quotas, "ann byte")] == [5.0]


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"user-is": "named"},
        {"user-is": "named", "user": " "},
        {"user-is": "other"},
        {"user-is": "default", "ip-is": "default"},
    ],
)
def test_a_quota_of_nobody_is_refused(form: dict[str, str]) -> None:
    with pytest.raises(BadQuota):
        typed_entity(form)


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "inf", "1e999", "many", "1" * 50])
def test_a_quota_is_a_number_above_0(value: str) -> None:
    with pytest.raises(BadQuota):
        typed_quota({"name": "producer_byte_rate", "value": value})
    assert typed_quota({"name": "producer_byte_rate", "value": " 1.5 "}) == ("producer_byte_rate", 1.5)


def test_audit_records_are_of_everybody_or_of_one_and_what_stands_in_them_is_written_out() -> None:
    at = {"time": "2026-11-28T11:00:00.123+00:00", "cluster": "prod", "outcome": "done"}
    records = [
        {**at, "user": "ann", "action": "topic.create", "target": "a\u202eb", "partitions": 3, "reason": None},
        {**at, "user": "bob", "action": "sign-in", "target": "x" * 1000},
    ]
    rows = audit_rows(records, None)
    assert [row.user for row in rows] == ["ann", "bob"]
    assert (rows[0].time, rows[0].target, rows[0].details) == (
        "2026-11-28 11:00:00.123",
        "a\\u202eb",
        '{"partitions": 3}',
    )
    assert len(rows[1].target) == 301
    assert [row.user for row in audit_rows(records, "bob")] == ["bob"]
