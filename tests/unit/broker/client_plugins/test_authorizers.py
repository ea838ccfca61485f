"""What the broker makes of an authorizer's answers, and of an authorizer that gives none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from ottla_broker.authorization import Authorization
from ottla_broker.client_plugins import guarded_authorizer
from ottla_broker.client_plugins.finding import find_authorizer
from ottla_broker.client_plugins.guarded_authorizer import AnswersForATime, ClusterAccessLists, GuardedAuthorizer
from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.errors import ConfigurationError, TopicAuthorizationFailed
from ottla_core.principal import USER, Principal
from ottla_sdk import AccessRequest, Authorizer, AuthorizerContext

ANN = Principal(USER, "ann")
TOPIC = ResourceKind.TOPIC


class Scripted(Authorizer[Any]):
    """Answers as it is told, and keeps what it was asked."""

    answers_hold_ms = None

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer
        self.asked: list[AccessRequest] = []

    def authorize(self, request: AccessRequest) -> bool:
        self.asked.append(request)
        return self.answer()  # type: ignore[return-value]

    def authorize_any(self, request: AccessRequest) -> bool:
        return self.authorize(request)


@dataclass
class Asking:
    """A request, as far as rights go by it."""

    principal: Principal = ANN
    address: str = "10.0.0.7"
    listener_name: str = "L"
    topic_rights: object | None = None
    api_key: int = 0
    client_id: str = ""

    @property
    def connection(self) -> "Asking":
        return self

    @property
    def header(self) -> "Asking":
        return self


@dataclass
class Recorded:
    """An audit log that keeps denials."""

    has_data: bool = False
    denials: list[Mapping[str, int] | None] = field(default_factory=list)

    def note_denial(
        self, caller: object, operation: str, resource: str, errors: Mapping[str, int] | None = None
    ) -> None:
        self.denials.append(errors)


def raise_error() -> bool:
    raise LookupError("the plugin's own trouble")


def judged(
    authorizer: Authorizer[Any], acls: Callable[[], Mapping[UUID, AclBinding]] = dict
) -> tuple[Authorization, Recorded]:
    audit = Recorded()
    return Authorization(GuardedAuthorizer(authorizer, acls), audit), audit  # type: ignore[arg-type]


def permits(authorization: Authorization, name: str = "t", request: Any = None) -> bool:
    return authorization.permits(request or Asking(), AclOperation.WRITE, TOPIC, name)


def test_an_authorizer_is_asked_once_for_what_it_has_answered() -> None:
    scripted, acls = Scripted(lambda: True), dict[UUID, AclBinding]()
    authorization, _ = judged(scripted, lambda: acls)
    assert permits(authorization)
    assert permits(authorization)
    (asked,) = scripted.asked
    assert (str(asked.principal), asked.host, asked.operation.name) == ("User:ann", "10.0.0.7", "WRITE")
    assert (asked.resource_type.name, asked.resource_name) == ("TOPIC", "t")


@pytest.mark.parametrize("answer", [raise_error, lambda: 1, lambda: None, lambda: "yes", object])
def test_what_is_no_answer_refuses_is_counted_and_recorded_and_not_remembered(answer: Callable[[], object]) -> None:
    scripted, acls = Scripted(answer), dict[UUID, AclBinding]()
    authorization, audit = judged(scripted, lambda: acls)
    assert authorization.authorizer is not None
    with capture_logs() as logs:
        assert not permits(authorization)
        with pytest.raises(TopicAuthorizationFailed):
            authorization.check_topic(Asking(), AclOperation.WRITE, "t")  # type: ignore[arg-type]
    assert authorization.authorizer.counts.failures == 2
    assert audit.denials == [{"AUTHORIZER_FAILED": 1}] * 2
    assert len([each for each in logs if each["log_level"] == "error"]) == 1, "it is logged now and then"
    scripted.answer = lambda: True
    assert permits(authorization)


def test_a_refusal_is_recorded_without_an_error() -> None:
    authorization, audit = judged(Scripted(lambda: False))
    assert not permits(authorization)
    assert audit.denials == [None]
    assert authorization.denials[TOPIC] == 1


def test_a_slow_answer_counts_and_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_authorizer, "SLOW_SECONDS", -1.0)
    authorization, _ = judged(Scripted(lambda: True))
    assert authorization.authorizer is not None
    with capture_logs() as logs:
        assert permits(authorization)
    assert authorization.authorizer.counts.slow == 1
    assert [each["event"] for each in logs] == ["the authorizer holds up the broker"]


def test_answers_hold_for_their_time_and_no_longer() -> None:
    now_s, acls = [100.0], [dict[UUID, AclBinding]()]
    answers = AnswersForATime(lambda: acls[0], 1000, lambda: now_s[0])
    first = answers()
    now_s[0] = 100.9
    assert answers() is first
    now_s[0] = 101.0
    second = answers()
    assert second is not first
    assert answers() is second
    acls[0] = {}
    assert answers() is not second


def test_answers_that_hold_not_at_all_are_asked_for_each_time() -> None:
    class Forgetful(Scripted):
        answers_hold_ms = 0

    forgetful, acls = Forgetful(lambda: True), dict[UUID, AclBinding]()
    authorization, _ = judged(forgetful, lambda: acls)
    connection = Asking()
    for _ in range(3):
        authorization.check_topic(connection, AclOperation.WRITE, "t")  # type: ignore[arg-type]
    assert len(forgetful.asked) == 3


def binding(permission: Permission = Permission.ALLOW, name: str = "t") -> AclBinding:
    return AclBinding(
        kind=TOPIC,
        pattern=PatternType.LITERAL,
        name=name,
        principal="User:ann",
        host="*",
        operation=AclOperation.WRITE,
        permission=permission,
    )


@pytest.mark.parametrize("name", ["StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
def test_the_standard_authorizer_enters_by_the_same_door(name: str) -> None:
    acls: list[Mapping[UUID, AclBinding]] = [{}]
    authorizer = find_authorizer(name, {"super.users": "User:root", "allow.everyone.if.no.acl.found": "false"})
    authorizer.start(AuthorizerContext("c", 1, ClusterAccessLists(lambda: acls[0])))
    authorization, _ = judged(authorizer, lambda: acls[0])
    assert authorization.uses_access_lists
    assert permits(authorization, request=Asking(Principal(USER, "root")))
    assert authorization.is_super_user(Principal(USER, "root"))
    assert not permits(authorization)
    acls[0] = {uuid4(): binding()}
    assert permits(authorization)
    assert not permits(authorization, "other")
    acls[0] = {uuid4(): binding(), uuid4(): binding(Permission.DENY)}
    assert not permits(authorization)


def test_everything_is_allowed_without_lists_where_the_setting_says_so() -> None:
    acls = {uuid4(): binding()}
    authorizer = find_authorizer("StandardAuthorizer", {"allow.everyone.if.no.acl.found": "true"})
    authorizer.start(AuthorizerContext("c", 1, ClusterAccessLists(lambda: acls)))
    authorization, _ = judged(authorizer, lambda: acls)
    bob = Asking(Principal(USER, "bob"))
    assert permits(authorization, "other", bob)
    assert not permits(authorization, "t", bob)


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("kafka.security.authorizer.AclAuthorizer", {}, "no installed plugin has a authorizer"),
        ("FileConfigProvider", {}, "no installed plugin has"),
        ("StandardAuthorizer", {"authorizer.teams.file": "x"}, "authorizer.teams.file: no setting of"),
        ("StandardAuthorizer", {"allow.everyone.if.no.acl.found": "perhaps"}, "allow.everyone.if.no.acl.found"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, settings: Mapping[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told.replace(".", r"\.")):
        find_authorizer(name, settings)
