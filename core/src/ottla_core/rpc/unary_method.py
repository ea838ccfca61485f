"""The type of a unary gRPC method, as stubs offer it: of its request, and of its response."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from grpc import aio

RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class UnaryMethod(Protocol[RequestT_contra, ResponseT_co]):
    """A unary gRPC method."""

    def __call__(
        self,
        request: RequestT_contra,
        *,
        timeout: float | None = None,
        metadata: "aio.Metadata | None" = None,
    ) -> Awaitable[ResponseT_co]:
        """Start the call."""
