"""UpdateFeatures (key 57): finalise levels of features (KIP-584, KIP-778)."""

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.response import UpdatableFeatureResult, UpdateFeaturesResponse

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.controller_api import FeatureUpdate, FeatureUpdateType
from ottla_core.errors import KafkaError


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller update levels; all are updated or none."""
    message = request.newest()
    updates = [
        FeatureUpdate(feature=each.feature, level=each.max_version_level, type=each.upgrade_type)
        for each in message.feature_updates
    ]
    if request.version == 0:  # says only whether a downgrade is meant
        updates = [
            FeatureUpdate(
                feature=each.feature,
                level=each.max_version_level,
                type=FeatureUpdateType.SAFE_DOWNGRADE if each.allow_downgrade else FeatureUpdateType.UPGRADE,
            )
            for each in request.message.feature_updates
        ]
    error, reason = ErrorCode.none, None
    try:
        await broker.controller.update_features(
            updates,
            validate_only=message.validate_only,
            timeout_s=broker.config.request_timeout_ms / 1000,
        )
    except KafkaError as refused:
        error, reason = refused.code, refused.message
    results = tuple(
        UpdatableFeatureResult(feature=each.feature, error_code=ErrorCode.none, error_message=None)
        for each in updates
        if error is ErrorCode.none
    )
    return request.respond(
        UpdateFeaturesResponse(throttle_time=NO_THROTTLE, error_code=error, error_message=reason, results=results)
    )
