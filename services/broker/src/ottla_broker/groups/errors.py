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
    """Nobody coordinates transactions at the cluster's level of features.

    Of all errors it is the only one upon which every client gives up.
    """

    code = ErrorCode.transactional_id_authorization_failed


class CoordinatorLoadInProgress(KafkaError):
    """What is needed for an answer is not there yet; clients repeat the request as it is."""

    code = ErrorCode.coordinator_load_in_progress


class VerificationNeeded(KafkaError):
    """A group's shard does not have the transaction yet, as far as it knows; not told to clients.

    Attributes:
        guard: with which the shard is to be asked again when the transaction's coordinator knows it as a part.
    """

    def __init__(self, guard: int) -> None:
        super().__init__("the shard is not known to be a part of the transaction")
        self.guard = guard


class CoordinatorNotAvailable(KafkaError):
    """No coordinator owns the group now."""

    code = ErrorCode.coordinator_not_available
