"""Reading the body of a request: its media type is checked, its size is limited."""

from typing import Annotated

from fastapi import Depends, Request

from ottla_core.rest.errors import RequestError

BODY_BYTES_MAX = 20_000_000
"""Also the longest string that Kafka Connect takes in a body."""
JSON_MEDIA_TYPE = "application/json"


class UnsupportedMediaType(RequestError):
    """The body is not declared to be JSON."""

    status = 415


class BodyTooLarge(RequestError):
    """The body has more than `BODY_BYTES_MAX` bytes."""

    status = 413


async def check_media_type(request: Request) -> None:
    """Check that a request which says what its body is says that it is JSON.

    Raises:
        UnsupportedMediaType: it says something else.
    """
    given = request.headers.get("content-type")
    if given is not None and given.partition(";")[0].strip().lower() != JSON_MEDIA_TYPE:
        raise UnsupportedMediaType(
            f"HTTP 415 Unsupported Media Type: send Content-Type: {JSON_MEDIA_TYPE}, not {given[:100]}"
        )


async def read_body(request: Request) -> bytes:
    """Return the body of a request, and keep it in case that the request is forwarded.

    Raises:
        UnsupportedMediaType: it is not declared to be JSON.
        BodyTooLarge: it is too large.
    """
    await check_media_type(request)
    if (kept := getattr(request.state, "body", None)) is not None:
        return bytes(kept)  # it is asked again, for another worker could not be reached
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise BodyTooLarge(f"the body has more than {BODY_BYTES_MAX:,} bytes")
    if body and "content-type" not in request.headers:
        raise UnsupportedMediaType(f"HTTP 415 Unsupported Media Type: send Content-Type: {JSON_MEDIA_TYPE}")
    whole = bytes(body)
    request.state.body = whole
    return whole


Body = Annotated[bytes, Depends(read_body)]
