"""What TeamAuthorizer and DomainUsers say."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_example_teams.domain_users import DomainUsers
from ottla_example_teams.team_authorizer import TeamAuthorizer
from ottla_sdk import (
    AccessRequest,
    AuthenticatedClient,
    AuthorizerContext,
    FatalError,
    Operation,
    Principal,
    PrincipalRefused,
    ResourceType,
)

DEADLINE_S = 10
ANN = Principal("User", "ann")


class Lists:
    """Access control lists that allow everything with the topic `open`."""

    def decide(self, request: AccessRequest) -> bool | None:
        """Return whether it is that topic."""
        return True if request.resource_name == "open" else None

    def allow_any(self, request: AccessRequest) -> bool:
        """Return that nothing else is allowed."""
        return False


def question(name: str, principal: Principal = ANN, kind: ResourceType = ResourceType.TOPIC) -> AccessRequest:
    """May this principal write to a topic?"""
    return AccessRequest(principal, "10.0.0.1", Operation.WRITE, kind, name)


@pytest.fixture
def teams(tmp_path: Path) -> Path:
    """A file of teams."""
    file = tmp_path / "teams.json"
    file.write_text(json.dumps({"weather": ["ann"]}))
    return file


@pytest.fixture
def authorizer(teams: Path) -> Iterator[TeamAuthorizer]:
    """An authorizer that goes by it."""
    made = TeamAuthorizer()
    made.configure(
        {
            "authorizer.teams.file": str(teams),
            "authorizer.teams.check.seconds": "0.01",
            "super.users": "User:root",
        }
    )
    made.start(AuthorizerContext("cluster", 1, Lists()))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (question("weather.readings"), True),
        (question("weather"), False),
        (question("weatherman.readings"), False),
        (question("weather.readings", Principal("User", "bob")), False),
        (question("weather.readings", Principal("Robot", "ann")), False),
        (question("weather.readings", kind=ResourceType.TRANSACTIONAL_ID), False),
        (question("open"), True),
        (question("other", Principal("User", "root")), True),
    ],
)
def test_a_team_owns_what_begins_with_its_name(
    authorizer: TeamAuthorizer, asked: AccessRequest, expected: bool
) -> None:
    assert authorizer.authorize(asked) is expected


def test_a_changed_file_holds_and_a_broken_one_does_not(authorizer: TeamAuthorizer, teams: Path) -> None:
    teams.write_text("{")
    assert authorizer.authorize(question("weather.readings"))
    teams.write_text(json.dumps({"weather": ["bob"]}))
    deadline = time.monotonic() + DEADLINE_S
    while authorizer.authorize(question("weather.readings")):
        assert time.monotonic() < deadline, "the file was not read again"
    assert authorizer.authorize(question("weather.readings", Principal("User", "bob")))


def test_a_missing_file_ends_the_start(tmp_path: Path) -> None:
    made = TeamAuthorizer()
    made.configure({"authorizer.teams.file": str(tmp_path / "none")})
    with pytest.raises(FatalError, match="none"):
        made.start(AuthorizerContext("cluster", 1, Lists()))
    made.close()


def client(name: str, mechanism: str = "PLAIN") -> AuthenticatedClient:
    """A client that has logged in."""
    return AuthenticatedClient(
        default=Principal("User", name),
        address="10.0.0.1",
        listener="L",
        security_protocol="SASL_SSL",
        mechanism=mechanism,
    )


def test_users_of_the_domain_alone_have_names() -> None:
    builder = DomainUsers()
    builder.configure({"principal.builder.domain": "example.com"})
    assert builder.build(client("ann@example.com")) == ANN
    assert builder.build(client("ANONYMOUS", mechanism="")) == Principal("User", "ANONYMOUS")
    with pytest.raises(PrincipalRefused):
        builder.build(client("ann@example.org"))
