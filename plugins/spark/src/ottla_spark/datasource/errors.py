"""What reading fails with. The class says whether trying again helps; the message is all that a person needs."""

from ottla_sdk import FatalError, RetriableError


class MissingTopic(FatalError):
    """A topic or partition that a query names does not exist."""


class OffsetsUnusable(FatalError):
    """Starting or ending offsets do not fit the partitions that there are."""


class DataLost(FatalError):
    """Records that a query still had to read are gone, and `failOnDataLoss` is true."""


class ClusterUnreachable(RetriableError):
    """No broker answered in time."""


class ReadFailed(RetriableError):
    """A broker refused a read, or no record came in time."""
