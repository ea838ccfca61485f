"""ApiVersions (key 18): which APIs this broker serves, in which versions."""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Protocol

from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32Timedelta

from ottla_broker.broker import Broker, Request
from ottla_broker.outcome import Parts
from ottla_core.wire.conversion import convert
from ottla_core.wire.messages import RequestHeader, message_codec

FIRST_VERSION_WITH_CLIENT_SOFTWARE = 3
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

NO_THROTTLE = i32Timedelta.parse(timedelta(0))


class AdvertisedApi(Protocol):
    """What of an API is advertised."""

    @property
    def key(self) -> int:
        """The API key."""

    @property
    def advertised_from(self) -> int:
        """The oldest version."""

    @property
    def newest(self) -> int:
        """The newest version."""


def handle(_broker: Broker, request: Request, apis: Iterable[AdvertisedApi]) -> Parts:
    """Answer with the versions of every API, provided that the client names itself properly (KIP-511)."""
    message = request.message
    if request.version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE and not (
        SOFTWARE_NAME.fullmatch(message.client_software_name)
        and SOFTWARE_NAME.fullmatch(message.client_software_version)
    ):
        return request.respond(_response(ErrorCode.invalid_request, ()))
    return request.respond(_response(ErrorCode.none, apis))


def unsupported(header: RequestHeader, apis: Iterable[AdvertisedApi]) -> Parts:
    """Answer an ApiVersions request of an unknown version: in the form of version 0, so that any client reads it.

    The versions of ApiVersions itself are part of the answer, so that the client can ask again (KIP-511).
    """
    response = _response(ErrorCode.unsupported_version, (api for api in apis if api.key == header.api_key))
    codec = message_codec(header.api_key, 0)
    return [codec.encode_response(header.correlation_id, convert(response, ApiVersionsResponseV0))]


def _response(error: ErrorCode, apis: Iterable[AdvertisedApi]) -> ApiVersionsResponse:
    keys = tuple(
        ApiVersion(api_key=i16(api.key), min_version=i16(api.advertised_from), max_version=i16(api.newest))
        for api in sorted(apis, key=lambda api: api.key)
    )
    return ApiVersionsResponse(error_code=error, api_keys=keys, throttle_time=NO_THROTTLE)
