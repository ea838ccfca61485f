"""How Kafka errors travel over gRPC.

A servicer raises `KafkaError`s as everything else does. The server's interceptor turns one into a gRPC status whose
trailing metadata carries the Kafka code and the message; the caller's `kafka_error` makes the error of it again,
as the same class where there is one. Anything else that a servicer raises is a bug: it is logged with its
traceback and travels as UNKNOWN_SERVER_ERROR without details.
"""

import grpc
from grpc import aio
from kio.schema.errors import ErrorCode

from ottla_core.errors import CodedError, KafkaError, MessageTooLarge, UnsupportedVersion

CODE_METADATA = "ottla-error-code"
MESSAGE_METADATA = "ottla-error-message-bin"
"""Binary, as a message may hold any character and metadata only ASCII."""

LOST_REASON = "Internal error from Core"
_STATUS_OF_CODE = {
    ErrorCode.unknown_server_error: grpc.StatusCode.INTERNAL,
    ErrorCode.request_timed_out: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorCode.invalid_request: grpc.StatusCode.INVALID_ARGUMENT,
}


class RpcUnavailable(KafkaError):
    """The other process did not answer; what was asked may have happened or not."""

    code = ErrorCode.request_timed_out


def status_of(error: KafkaError) -> tuple[grpc.StatusCode, tuple[tuple[str, str | bytes], ...]]:
    """Return the gRPC status and the trailing metadata that carry an error."""
    status = _STATUS_OF_CODE.get(error.code, grpc.StatusCode.FAILED_PRECONDITION)
    return status, (
        (CODE_METADATA, str(error.code.value)),
        (MESSAGE_METADATA, error.message.encode()),
    )


def described(error: aio.AioRpcError) -> str:
    """Return what is known of a failed call, for people.

    gRPC's Python layer answers "Internal error from Core" where a stream ends while it is being written to; what it
    knows of the reason stands elsewhere then.
    """
    details = error.details() or ""
    if details != LOST_REASON:
        return f"{error.code().name}: {details}" if details else error.code().name
    known = error.debug_error_string()
    return f"the other process has ended the stream while it was written to{f' ({known})' if known else ''}"


def kafka_error(error: aio.AioRpcError) -> KafkaError:
    """Return the error that the called process raised, or `RpcUnavailable` when it gave no answer."""
    metadata = dict(error.trailing_metadata() or ())
    code_text = metadata.get(CODE_METADATA)
    if code_text is None and error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return UnsupportedVersion("the process that was asked is of a release that does not know this request")
    if code_text is None and error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return MessageTooLarge(described(error))  # it would be as large when it is sent again
    if code_text is None:
        return RpcUnavailable(described(error))
    code = ErrorCode(int(code_text))
    message = metadata.get(MESSAGE_METADATA, b"")
    return error_with_code(code, message.decode() if isinstance(message, bytes) else message)


def error_with_code(code: ErrorCode, message: str) -> KafkaError:
    """Return an error of the class that stands for `code`, or a `CodedError` if none does."""
    for error_class in KafkaError.__subclasses__():
        if error_class is not CodedError and error_class is not RpcUnavailable and error_class.code is code:
            return error_class(message)
    return CodedError(code, message)
