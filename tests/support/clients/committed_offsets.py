"""Offsets that are committed for a group without members, as tools do it.

librdkafka gives such a commit up after two short retries. A coordinator that has just come to own a group may load
for longer than that on a busy machine, so whoever begins with a commit has to ask again.
"""

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.eventually import eventually

_COORDINATOR_COMES = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


def commit_offsets(
    bootstrap: str,
    group: str,
    offsets: Sequence[TopicPartition],
    *,
    settings: Mapping[str, str] | None = None,
    within_s: float = 30.0,
) -> None:
    """Commit offsets once the group has a coordinator that answers.

    Raises:
        NotInTime: none has answered in time.
        KafkaException: it has refused the commit.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **(settings or {})})

    def is_committed() -> bool:
        try:
            outcomes = consumer.commit(offsets=list(offsets), asynchronous=False) or []
        except KafkaException as error:
            if error.args[0].code() in _COORDINATOR_COMES:
                return False
            raise
        for outcome in outcomes:
            if outcome.error is not None:
                raise KafkaException(outcome.error)
        return True

    try:
        eventually(is_committed, f"offsets of group {group} are committed", within_s=within_s)
    finally:
        consumer.close()
