"""Makes the users of a cluster in etcd and turns on that etcd asks who calls; what is there already stays.

All of it may be repeated: after a failure in between, and for processes that have joined since.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import grpc

from ottla.secure.etcd_rights import Right, is_of_cluster, role_of, users_of
from ottla.secure.holders import ETCD_ROOT_USER
from ottla_core.cluster.etcd.connection import CHANNEL_OPTIONS
from ottla_core.cluster.etcd.endpoints import etcd_targets
from ottla_operations.errors import OperationError
from ottla_proto.gen.etcd import rpc_pb2 as pb
from ottla_proto.gen.etcd.rpc_pb2_grpc import AuthStub

TIMEOUT_S = 5.0
CONNECTED_WITHIN_S = 10.0


def make_users(endpoint: str, files: tuple[Path, Path, Path], cluster: str, counts: Mapping[str, int]) -> list[str]:
    """Make the users of a cluster, and have etcd ask for them from now on; return those that are new.

    Args:
        endpoint: URL of a member, with https.
        files: the authorities, and certificate and key of etcd's user `root`.
        cluster: its name.
        counts: how many processes it has, by role.

    Raises:
        OperationError: etcd cannot be reached or refuses.
    """
    chosen = etcd_targets([endpoint])
    if not chosen.tls:
        raise OperationError(f"{endpoint}: users are known by certificates, for which etcd has to listen with https")
    authorities, certificate, key = files
    try:
        credentials = grpc.ssl_channel_credentials(
            authorities.read_bytes(), key.read_bytes(), certificate.read_bytes()
        )
    except OSError as error:
        raise OperationError(f"cannot read {error.filename}: {error.strerror}") from None
    with grpc.secure_channel(chosen.targets[0], credentials, options=CHANNEL_OPTIONS) as channel:
        try:
            grpc.channel_ready_future(channel).result(CONNECTED_WITHIN_S)
            return _make(AuthStub(channel), {ETCD_ROOT_USER: (), **users_of(cluster, counts)}, cluster)
        except grpc.FutureTimeoutError:
            raise OperationError(f"etcd at {endpoint} does not answer, or does not accept {certificate}") from None
        except grpc.RpcError as error:
            raise OperationError(f"etcd at {endpoint} refuses: {error.details()}") from None


def _make(auth: AuthStub, users: Mapping[str, tuple[Right, ...]], cluster: str) -> list[str]:
    known_users = set(auth.UserList(pb.AuthUserListRequest(), timeout=TIMEOUT_S).users)
    _check_of_no_other_cluster(auth, known_users.intersection(users), cluster)
    known_roles = set(auth.RoleList(pb.AuthRoleListRequest(), timeout=TIMEOUT_S).roles)
    for user, rights in users.items():
        role = role_of(user, cluster)
        if role not in known_roles:
            auth.RoleAdd(pb.AuthRoleAddRequest(name=role), timeout=TIMEOUT_S)
        for right in rights:
            kind = pb.Permission.READWRITE if right.may_write else pb.Permission.READ
            permission = pb.Permission(type=kind, key=right.key.encode(), range_end=right.range_end)
            request = pb.AuthRoleGrantPermissionRequest(name=role, permission=permission)
            auth.RoleGrantPermission(request, timeout=TIMEOUT_S)
        if user not in known_users:
            options = pb.UserAddOptions(no_password=True)
            auth.UserAdd(pb.AuthUserAddRequest(name=user, options=options), timeout=TIMEOUT_S)
        auth.UserGrantRole(pb.AuthUserGrantRoleRequest(user=user, role=role), timeout=TIMEOUT_S)
    # Enabled twice is enabled; etcd 3.4, which Debian 12 has, cannot be asked whether it is.
    auth.AuthEnable(pb.AuthEnableRequest(), timeout=TIMEOUT_S)
    return sorted(users.keys() - known_users)


def _check_of_no_other_cluster(auth: AuthStub, users: Iterable[str], cluster: str) -> None:
    """See that a user is a process of this cluster only; one of two clusters could write the state of either.

    Raises:
        OperationError: it is not.
    """
    for user in sorted(users):
        roles = auth.UserGet(pb.AuthUserGetRequest(name=user), timeout=TIMEOUT_S).roles
        others = [role for role in roles if is_of_cluster(role) and role != role_of(user, cluster)]
        if others:
            raise OperationError(
                f"user {user} of etcd has the role {others[0]} of another cluster: users are named by role and "
                "number, so clusters of which etcd asks for users each need an etcd of their own"
            )
