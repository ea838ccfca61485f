"""Why a request about a group could not be passed on. Which of the two a client gets depends on the API.

Clients answer NOT_COORDINATOR by looking the coordinator up again and repeating their request, but for OffsetFetch,
where `ottla_core.wire.group_responses` puts another error in its place. Some take COORDINATOR_NOT_AVAILABLE in answer
to anything but that look-up for a failure (aiokafka and kafka-python in answer to an OffsetFetch, Java before 3.9
too), so it is given only to FindCoordinator and ListGroups.
"""

from kio.schema.errors import ErrorCode

from ottla_core.errors import KafkaError


class NotCoordinator(KafkaError):
    """Nobody who could answer for the group can be reached through this broker now."""

    code = ErrorCode.not_coordinator


class TransactionalIdRefused(KafkaError):
    """Nobody coordinates transactions."""

    code = ErrorCode.transactional_id_authorization_failed


class CoordinatorNotAvailable(KafkaError):
    """No coordinator owns the group now."""

    code = ErrorCode.coordinator_not_available
