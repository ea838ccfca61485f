"""What a request is refused with before any rule is asked; each error carries the code that clients understand.

Pure.
"""

from kio.schema.errors import ErrorCode

from ottla_core.errors import KafkaError


class CoordinatorNotAvailable(KafkaError):
    """What was decided could not be stored in time; ask again."""

    code = ErrorCode.coordinator_not_available


class CoordinatorLoadInProgress(KafkaError):
    """The shard is still being read."""

    code = ErrorCode.coordinator_load_in_progress


class NotCoordinator(KafkaError):
    """Another coordinator owns the shard, or nobody does."""

    code = ErrorCode.not_coordinator
