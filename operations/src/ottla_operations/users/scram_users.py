"""The users of SCRAM in a cluster, over Kafka's protocol (KIP-554).

Passwords are salted and hashed here: what is sent can log in to this cluster, but does not tell the password.
"""

from collections.abc import Mapping, Sequence
from secrets import token_bytes
from typing import TYPE_CHECKING

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32

from ottla_core.cluster.state.security import ScramMechanism
from ottla_core.scram import SALT_BYTES, salted_password
from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from ottla_operations.cluster.cluster_admin import ClusterAdmin

Iterations = Mapping[ScramMechanism, int]


def users_of(admin: "ClusterAdmin") -> dict[str, Iterations]:
    """Return all users with their mechanisms, and with how many iterations each was hashed.

    Raises:
        OperationError: the cluster refuses.
    """
    response = admin.ask(DescribeUserScramCredentialsRequest(users=None))
    if response.error_code is not ErrorCode.none:
        raise OperationError(response.error_message or response.error_code.name)
    return {
        each.user: {ScramMechanism(info.mechanism): info.iterations for info in each.credential_infos}
        for each in response.results
        if each.error_code is ErrorCode.none
    }


def set_password(
    admin: "ClusterAdmin", user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
) -> None:
    """Set a user's password for some mechanisms, each with a salt of its own.

    Raises:
        OperationError: the cluster refuses; mechanisms before the one that it refuses have the new password.
    """
    for mechanism in mechanisms:
        salt = token_bytes(SALT_BYTES)
        upsertion = ScramCredentialUpsertion(
            name=user,
            mechanism=i8(mechanism),
            iterations=i32(iterations),
            salt=salt,
            salted_password=salted_password(mechanism, password, salt, iterations),
        )
        _alter(admin, AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,)))


def delete(admin: "ClusterAdmin", user: str, mechanisms: Sequence[ScramMechanism]) -> None:
    """Delete a user's credentials for some mechanisms.

    Raises:
        OperationError: the cluster refuses.
    """
    for mechanism in mechanisms:
        deletion = ScramCredentialDeletion(name=user, mechanism=i8(mechanism))
        _alter(admin, AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=()))


def _alter(admin: "ClusterAdmin", request: AlterUserScramCredentialsRequest) -> None:
    (result,) = admin.ask(request).results
    if result.error_code is not ErrorCode.none:
        raise OperationError(f"user {result.user}: {result.error_message or result.error_code.name}")
