"""What is said of a call that failed."""

import grpc
import pytest
from grpc import aio

from ottla_core.rpc.status import described, kafka_error


def failed(code: grpc.StatusCode, details: str | None, known: str | None = None) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details=details, debug_error_string=known)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (failed(grpc.StatusCode.UNAVAILABLE, "connection refused"), "UNAVAILABLE: connection refused"),
        (failed(grpc.StatusCode.CANCELLED, None), "CANCELLED"),
        (
            failed(grpc.StatusCode.INTERNAL, "Internal error from Core", "Failed grpc_call_start_batch: 10"),
            "the other process has ended the stream while it was written to (Failed grpc_call_start_batch: 10)",
        ),
        (
            failed(grpc.StatusCode.INTERNAL, "Internal error from Core"),
            "the other process has ended the stream while it was written to",
        ),
    ],
)
def test_a_failed_call_is_described_in_words_that_help(error: aio.AioRpcError, text: str) -> None:
    assert described(error) == text
    assert kafka_error(error).message == text
