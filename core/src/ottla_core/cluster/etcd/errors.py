"""What can go wrong between Ottla and etcd, and which gRPC status means what."""

import grpc
from grpc import aio

from ottla_core.errors import OttlaError
from ottla_core.rpc.status import described


class EtcdError(OttlaError):
    """etcd refused a request, or could not be asked."""


class EtcdUnavailable(EtcdError):
    """No endpoint answered a read in time."""


class EtcdAccessDenied(EtcdError):
    """User name, password or permission is wrong."""


class WriteOutcomeUnknown(EtcdError):
    """A write got no answer: it may have happened, not have happened, or happen later."""


class EtcdAnswerTooLarge(EtcdError):
    """etcd sent a message that is larger than a process takes."""


class LeaseNotFound(EtcdError):
    """The lease has expired or was revoked."""


class WatchHistoryLost(EtcdError):
    """The revision to watch from is compacted away: list again."""


class StoreWentBack(WatchHistoryLost):
    """The revision to watch from lies ahead of the store, which was restored or made anew."""


_NO_ANSWER = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)

_ACCESS_DENIED = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})


def is_no_answer(error: aio.AioRpcError) -> bool:
    """Return whether the call ended without etcd's decision on it."""
    return error.code() in _NO_ANSWER and not is_stale_token(error)


def is_stale_token(error: aio.AioRpcError) -> bool:
    """Return whether etcd refused the call because its token has expired or predates a change of rights."""
    details = error.details() or ""
    return "invalid auth token" in details or "revision of auth store is old" in details


def is_too_large(error: aio.AioRpcError) -> bool:
    """Return whether the answer was there and was not taken, as it is larger than the channel allows.

    etcd itself answers RESOURCE_EXHAUSTED for other reasons, such as a full database.
    """
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in (error.details() or "")


def write_error(error: aio.AioRpcError) -> EtcdError:
    """Return what a failed write means; one whose answer was not taken may have been carried out."""
    if is_no_answer(error) or is_too_large(error):
        return WriteOutcomeUnknown(f"etcd did not answer a write: {described(error)}")
    return refusal(error)


def refusal(error: aio.AioRpcError) -> EtcdError:
    """Return what etcd's refusal means."""
    details = error.details() or error.code().name
    if is_too_large(error):
        return EtcdAnswerTooLarge(f"etcd sent a message that is too large to be taken: {details}")
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return LeaseNotFound(details)
    # etcd answers a wrong or missing user with INVALID_ARGUMENT and these words.
    if error.code() in _ACCESS_DENIED or "authentication failed" in details or "user name is empty" in details:
        return EtcdAccessDenied(f"etcd denies access, check etcd.username and etcd.password: {details}")
    return EtcdError(f"etcd refused: {details}")
