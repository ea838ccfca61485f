"""ApiVersions (key 18): which APIs this broker serves, in which versions; and levels of features (KIP-584)."""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32Timedelta, i64

from ottla_broker.broker import Broker, Request
from ottla_broker.outcome import Parts
from ottla_core.cluster.state.features import SUPPORTED, FinalizedFeatures
from ottla_core.wire.conversion import convert
from ottla_core.wire.messages import RequestHeader, message_codec

FIRST_VERSION_WITH_CLIENT_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_0 = 4
"""Clients that ask in an older version may refuse the whole answer for a feature that begins at level 0
(KAFKA-17492), so such features are left out of what this broker has."""
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_CHARACTERS_KEPT_MAX = 256
"""A connection keeps what its client says of itself, before a login too; a frame has room for megabytes of it."""

TELEMETRY_KEYS = (71, 72)
"""GetTelemetrySubscriptions and PushTelemetry: advertised where somebody is to see metrics, as in Kafka, since
clients that find them ask for subscriptions every five minutes, and push."""

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


def handle(broker: Broker, request: Request, apis: Iterable[AdvertisedApi]) -> Parts:
    """Answer with the versions of every API, provided that the client names itself properly (KIP-511)."""
    message = request.message
    if request.version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE and not (
        SOFTWARE_NAME.fullmatch(message.client_software_name)
        and SOFTWARE_NAME.fullmatch(message.client_software_version)
    ):
        return request.respond(_response(ErrorCode.invalid_request, ()))
    if request.version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE:
        request.connection.client_software = (
            message.client_software_name[:SOFTWARE_CHARACTERS_KEPT_MAX],
            message.client_software_version[:SOFTWARE_CHARACTERS_KEPT_MAX],
        )
    shown = [api for api in apis if broker.config.shows_metrics or api.key not in TELEMETRY_KEYS]
    response = _response(ErrorCode.none, shown)
    reads_level_0 = request.version >= FIRST_VERSION_WITH_LEVEL_0
    return request.respond(replace(response, **_features(broker.feed.state.features, reads_level_0=reads_level_0)))


def unsupported(header: RequestHeader, apis: Iterable[AdvertisedApi]) -> Parts:
    """Answer an ApiVersions request of an unknown version: in the form of version 0, so that any client reads it.

    The versions of ApiVersions itself are part of the answer, so that the client can ask again (KIP-511).
    """
    response = _response(ErrorCode.unsupported_version, (api for api in apis if api.key == header.api_key))
    codec = message_codec(header.api_key, 0)
    return [codec.encode_response(header.correlation_id, convert(response, ApiVersionsResponseV0))]


def _features(finalized: FinalizedFeatures, *, reads_level_0: bool) -> dict[str, Any]:
    """Return the fields that say what this broker has, and what the cluster is at."""
    return {
        "supported_features": tuple(
            SupportedFeatureKey(name=each.name, min_version=i16(each.min_level), max_version=i16(each.max_level))
            for each in SUPPORTED
            if each.min_level > 0 or reads_level_0
        ),
        "finalized_features_epoch": i64(finalized.epoch),
        "finalized_features": tuple(
            FinalizedFeatureKey(name=name, max_version_level=i16(level), min_version_level=i16(level))
            for name, level in sorted(finalized.levels.items())
        ),
    }


def _response(error: ErrorCode, apis: Iterable[AdvertisedApi]) -> ApiVersionsResponse:
    keys = tuple(
        ApiVersion(api_key=i16(api.key), min_version=i16(api.advertised_from), max_version=i16(api.newest))
        for api in sorted(apis, key=lambda api: api.key)
    )
    return ApiVersionsResponse(error_code=error, api_keys=keys, throttle_time=NO_THROTTLE)
