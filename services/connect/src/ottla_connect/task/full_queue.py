"""The error of a record for which a producer's queue has no room, though nothing else waits in it."""

from confluent_kafka import KafkaError, KafkaException


def never_has_room() -> KafkaException:
    """Return the error; librdkafka itself says no more than that the queue is full, however empty it is."""
    reason = "the record is larger than the producer's whole queue; raise buffer.memory"
    return KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, reason))
