"""What becomes of changes to the users of SCRAM, as a table."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller.scram_credentials import plan_alterations, plan_first_users
from ottla_core.cluster.controller_rpc.login_api import ScramDeletion, ScramUpsertion
from ottla_core.cluster.state.features import FinalizedFeatures
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import ScramCredential, ScramMechanism, SecurityState
from ottla_core.errors import CodedError
from ottla_core.scram import NOBODY

FIRST, SECOND = ScramMechanism
CREDENTIAL = ScramCredential(salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096)
RANDOM = replace(CREDENTIAL, salt=b"random")
NOBODIES = dict.fromkeys(ScramMechanism, RANDOM)


def state_of(*users: tuple[ScramMechanism, str], level: int = 3) -> ClusterState:
    security = SecurityState(scram_credentials=dict.fromkeys(users, CREDENTIAL))
    features = FinalizedFeatures(levels={"ottla.version": level}, epoch=7)
    return ClusterState(security=security, features=features)


def codes(plan_of: object) -> dict[str, ErrorCode | None]:
    return {each.user: each.error and each.error.code for each in plan_of.results}  # type: ignore[attr-defined]


def test_the_first_user_comes_with_nobody_and_the_last_one_takes_it_along() -> None:
    plan = plan_alterations([], [ScramUpsertion("ann", FIRST, CREDENTIAL)], state_of(), NOBODIES)
    assert plan.credentials == {(FIRST, "ann"): CREDENTIAL, (FIRST, NOBODY): RANDOM}
    known = state_of((FIRST, "ann"), (FIRST, "bob"), (FIRST, NOBODY))
    plan = plan_alterations([ScramDeletion("ann", FIRST)], [], known, NOBODIES)
    assert plan.credentials == {(FIRST, "ann"): None}
    plan = plan_alterations([ScramDeletion("ann", FIRST)], [], state_of((FIRST, "ann"), (FIRST, NOBODY)), NOBODIES)
    assert plan.credentials == {(FIRST, "ann"): None, (FIRST, NOBODY): None}


def test_a_mechanism_of_its_own_is_another_user() -> None:
    known = state_of((FIRST, "ann"), (FIRST, NOBODY))
    plan = plan_alterations([], [ScramUpsertion("ann", SECOND, CREDENTIAL)], known, NOBODIES)
    assert set(plan.credentials) == {(SECOND, "ann"), (SECOND, NOBODY)}
    assert codes(plan_alterations([ScramDeletion("ann", SECOND)], [], known, NOBODIES)) == {
        "ann": ErrorCode.resource_not_found
    }


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (ScramUpsertion("", FIRST, CREDENTIAL), ErrorCode.unacceptable_credential),
        (ScramUpsertion("ann", 0, CREDENTIAL), ErrorCode.unsupported_sasl_mechanism),
        (ScramUpsertion("ann", 3, CREDENTIAL), ErrorCode.unsupported_sasl_mechanism),
        (ScramUpsertion("ann", FIRST, replace(CREDENTIAL, iterations=4095)), ErrorCode.unacceptable_credential),
        (ScramUpsertion("ann", FIRST, replace(CREDENTIAL, iterations=16385)), ErrorCode.unacceptable_credential),
        (ScramUpsertion("a" * 1025, FIRST, CREDENTIAL), ErrorCode.unacceptable_credential),
        (ScramUpsertion("ann", FIRST, replace(CREDENTIAL, salt=bytes(1025))), ErrorCode.unacceptable_credential),
    ],
)
def test_a_user_that_cannot_be_is_refused_and_others_are_not(change: ScramUpsertion, code: ErrorCode) -> None:
    plan = plan_alterations([], [change, ScramUpsertion("bob", FIRST, CREDENTIAL)], state_of(), NOBODIES)
    assert codes(plan) == {change.user: code, "bob": None}
    assert set(plan.credentials) == {(FIRST, "bob"), (FIRST, NOBODY)}


def test_a_deletion_of_nobody_is_refused() -> None:
    plan = plan_alterations([ScramDeletion("", FIRST)], [], state_of((FIRST, "a"), (FIRST, NOBODY)), NOBODIES)
    assert codes(plan) == {"": ErrorCode.unacceptable_credential}
    assert not plan.credentials


def test_a_user_that_is_changed_twice_is_not_changed_at_all() -> None:
    known = state_of((FIRST, "ann"), (FIRST, NOBODY))
    plan = plan_alterations(
        [ScramDeletion("ann", FIRST)], [ScramUpsertion("ann", SECOND, CREDENTIAL)], known, NOBODIES
    )
    assert codes(plan) == {"ann": ErrorCode.duplicate_resource}
    assert not plan.credentials


def test_below_the_level_nothing_is_written_and_the_command_is_named() -> None:
    plan = plan_alterations([], [ScramUpsertion("ann", FIRST, CREDENTIAL)], state_of(level=2), NOBODIES)
    assert codes(plan) == {"ann": ErrorCode.unsupported_version}
    (result,) = plan.results
    assert result.error is not None
    assert "ottla cluster features upgrade" in result.error.message
    assert not plan.credentials


def test_the_first_users_come_with_nobody_to_a_cluster_that_has_none() -> None:
    users = {(FIRST, "ann"): CREDENTIAL, (SECOND, "ann"): CREDENTIAL, (FIRST, "bob"): CREDENTIAL}
    assert plan_first_users(users, state_of(), NOBODIES) == {
        **users,
        (FIRST, NOBODY): RANDOM,
        (SECOND, NOBODY): RANDOM,
    }
    assert not plan_first_users({}, state_of(), NOBODIES)


def test_a_first_user_who_was_deleted_does_not_come_back() -> None:
    users = {(FIRST, "ann"): CREDENTIAL, (FIRST, "bob"): CREDENTIAL}
    assert not plan_first_users(users, state_of((FIRST, "ann"), (FIRST, NOBODY)), NOBODIES)
    assert not plan_first_users(users, state_of((SECOND, "carl"), (SECOND, NOBODY)), NOBODIES)


def test_first_users_that_cannot_be_are_named() -> None:
    with pytest.raises(CodedError, match=r"level 2 .*cluster features upgrade"):
        plan_first_users({(FIRST, "ann"): CREDENTIAL}, state_of(level=2), NOBODIES)
    with pytest.raises(CodedError, match=r"user 'ann' of scram.bootstrap.users: Too few iterations"):
        plan_first_users({(FIRST, "ann"): replace(CREDENTIAL, iterations=1)}, state_of(), NOBODIES)
