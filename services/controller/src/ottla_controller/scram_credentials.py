"""What becomes of changes to the users of SCRAM (KIP-554). Pure.

Source: Kafka's ScramControlManager. Each user is changed once in a request, and gets one result. Beside the first
credential of a mechanism that of `NOBODY` is written, from which follows what unknown users are shown; it goes with
the last one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from ottla_controller.security_level import security_refusal
from ottla_core.cluster.controller_rpc.login_api import AlteredUser, ScramDeletion, ScramUpsertion
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import ScramCredential, ScramMechanism
from ottla_core.errors import CodedError
from ottla_core.scram import ITERATIONS_MAX, ITERATIONS_MIN, NOBODY

USERS_MAX: Final = 100_000
"""Every process has the credentials of all users in memory."""
USER_BYTES_MAX: Final = 1024
SALT_BYTES_MAX: Final = 1024

Named = tuple[ScramMechanism, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramPlan:
    """What is to be done.

    Attributes:
        results: one for each user.
        credentials: what is to be written, by mechanism and user; None deletes.
    """

    results: list[AlteredUser]
    credentials: Mapping[Named, ScramCredential | None]


def plan_alterations(
    deletions: Sequence[ScramDeletion],
    upsertions: Sequence[ScramUpsertion],
    state: ClusterState,
    nobody: Mapping[ScramMechanism, ScramCredential],
) -> ScramPlan:
    """Return what is to be written, and what each user is to be told.

    Args:
        deletions: credentials to delete.
        upsertions: credentials to write.
        state: the present one.
        nobody: random credentials, one for each mechanism.
    """
    known = state.security.scram_credentials
    refusal = security_refusal(state)
    results: dict[str, AlteredUser] = {}
    credentials: dict[Named, ScramCredential | None] = {}
    changes: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    for change in changes:
        former = results.get(change.user)
        if former is not None:
            if former.error is None:
                credentials = {named: each for named, each in credentials.items() if named[1] != change.user}
                results[change.user] = AlteredUser(change.user, _TWICE)
            continue
        error = refusal or _why_refused(change, known)
        if error is None and isinstance(change, ScramUpsertion) and len(known) + len(credentials) >= USERS_MAX:
            error = CodedError(ErrorCode.policy_violation, f"there are {USERS_MAX} credentials already")
        results[change.user] = AlteredUser(change.user, error)
        if error is None:
            named = (ScramMechanism(change.mechanism), change.user)
            credentials[named] = change.credential if isinstance(change, ScramUpsertion) else None
    credentials |= _nobodies(known, credentials, nobody)
    return ScramPlan(results=[*results.values()], credentials=credentials)


def plan_first_users(
    users: Mapping[Named, ScramCredential], state: ClusterState, nobody: Mapping[ScramMechanism, ScramCredential]
) -> Mapping[Named, ScramCredential]:
    """Return what is to be written so that a cluster without users has its first ones; nothing if it has some.

    Users are looked for, not these users: one whom an operator has deleted must not come back.

    Args:
        users: those of `scram.bootstrap.users`.
        state: the present one.
        nobody: random credentials, one for each mechanism.

    Raises:
        CodedError: there may be no such users.
    """
    if state.security.scram_credentials or not users:
        return {}
    if refusal := security_refusal(state):
        raise refusal
    for (mechanism, name), credential in users.items():
        if refusal := _why_refused(ScramUpsertion(name, mechanism, credential), {}):
            raise CodedError(refusal.code, f"user '{name}' of scram.bootstrap.users: {refusal.message}")
    return {**users, **{(mechanism, NOBODY): nobody[mechanism] for mechanism, _ in users}}


_TWICE: Final = CodedError(
    ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request"
)


def _why_refused(change: ScramDeletion | ScramUpsertion, known: Mapping[Named, ScramCredential]) -> CodedError | None:
    if change.user == NOBODY:
        return CodedError(ErrorCode.unacceptable_credential, "Username must not be empty")
    if change.mechanism not in {*ScramMechanism}:
        return CodedError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if isinstance(change, ScramUpsertion):
        return _why_unacceptable(change)
    if (ScramMechanism(change.mechanism), change.user) in known:
        return None
    return CodedError(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")


def _why_unacceptable(change: ScramUpsertion) -> CodedError | None:
    reason = None
    if change.credential.iterations < ITERATIONS_MIN:
        reason = "Too few iterations"
    elif change.credential.iterations > ITERATIONS_MAX:
        reason = "Too many iterations"
    elif len(change.user.encode()) > USER_BYTES_MAX:
        reason = f"Username must not have more than {USER_BYTES_MAX} bytes"
    elif len(change.credential.salt) > SALT_BYTES_MAX:
        reason = f"The salt must not have more than {SALT_BYTES_MAX} bytes"
    return None if reason is None else CodedError(ErrorCode.unacceptable_credential, reason)


def _nobodies(
    known: Mapping[Named, ScramCredential],
    changes: Mapping[Named, ScramCredential | None],
    nobody: Mapping[ScramMechanism, ScramCredential],
) -> dict[Named, ScramCredential | None]:
    """Return the changes of `NOBODY`'s credentials that follow from those of users."""
    found: dict[Named, ScramCredential | None] = {}
    for mechanism in {each for each, _ in changes}:
        there_is = (mechanism, NOBODY) in known
        writes = any(each is mechanism and credential for (each, _), credential in changes.items())
        if writes and not there_is:
            found[mechanism, NOBODY] = nobody[mechanism]
        elif there_is and not writes and not _some_are_left(mechanism, known, changes):
            found[mechanism, NOBODY] = None
    return found


def _some_are_left(
    mechanism: ScramMechanism,
    known: Mapping[Named, ScramCredential],
    changes: Mapping[Named, ScramCredential | None],
) -> bool:
    return any(each is mechanism and user != NOBODY and (each, user) not in changes for each, user in known)
