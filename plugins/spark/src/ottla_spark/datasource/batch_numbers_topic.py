"""The topic of numbers: made on the driver, read by the task that writes a batch.

Numbers are read by `read_committed` up to the end that the partition had when the task had claimed the transactional
id. Then all transactions of that id have ended. Those of other queries may be open there for the moment between their
number and their commit, so the reader waits until the last stable offset has passed that end.
"""

from time import monotonic

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from ottla_spark.datasource.batch_numbers import TOPIC_SETTINGS, NumbersUnusable, WrittenBatch
from ottla_spark.datasource.client_options import BOOTSTRAP, Settings
from ottla_spark.datasource.errors import ReadFailed, new_client
from ottla_spark.datasource.refusals import Connections, failure
from ottla_spark.datasource.transaction_plan import TransactionPlan
from ottla_spark.datasource.transactional_producer import NUMBERS_PARTITION

ASK_TIMEOUT_S = 30.0
READ_STEP_S = 0.5
READ_STALLED_S = 60.0
"""How long nothing may come: a query that died in the moment between its number and its commit holds the others up
until it is started again, or its transaction times out."""
READ_MESSAGES = 1_000

_PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - public
_TOPIC_EXISTS = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})


def ensure_topic(plan: TransactionPlan) -> None:
    """Make the topic of numbers unless it is there.

    Raises:
        ConnectError: it cannot be made, or no broker answers.
    """
    connections = Connections()
    admin = new_client(AdminClient, connections.told_by(plan.admin_settings))
    where = f"{plan.numbers_place()} for the numbers of batches at {plan.admin_settings[BOOTSTRAP]}"
    try:
        if (
            plan.numbers_topic in admin.list_topics(timeout=ASK_TIMEOUT_S).topics
        ):  # all: brokers may make what is asked for
            return
        wanted = NewTopic(plan.numbers_topic, 1, replication_factor=-1, config=dict(TOPIC_SETTINGS))
        admin.create_topics([wanted], operation_timeout=ASK_TIMEOUT_S)[plan.numbers_topic].result(ASK_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() not in _TOPIC_EXISTS:
            admin.poll(0)
            raise failure(error.args[0], f"{where} cannot be made", connections) from None


def last_batch(plan: TransactionPlan, transactional_id: str) -> WrittenBatch | None:
    """Return the batch that was committed last under a transactional id; None if none was.

    Raises:
        NumbersUnusable: a record is none of a number.
        ConnectError: the topic cannot be read.
    """
    place = TopicPartition(plan.numbers_topic, NUMBERS_PARTITION)
    end = _end(plan, place)
    if end == 0:
        return None
    connections = Connections()
    consumer = new_client(Consumer, connections.told_by(_reader_settings(plan)))
    try:
        consumer.assign([TopicPartition(place.topic, place.partition, OFFSET_BEGINNING)])
        value = _last_value(consumer, transactional_id.encode(), end, plan.numbers_place())
    except KafkaException as error:
        raise failure(error.args[0], f"{plan.numbers_place()} cannot be read", connections) from None
    finally:
        consumer.close()
    return None if value is None else WrittenBatch.from_value(value, plan.numbers_place())


def _reader_settings(plan: TransactionPlan) -> Settings:
    return {
        **plan.consumer_settings,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }


def _end(plan: TransactionPlan, place: TopicPartition) -> int:
    """Return the high watermark, whatever transactions are open below it."""
    connections = Connections()
    admin = new_client(AdminClient, connections.told_by(plan.admin_settings))
    try:
        asked = admin.list_offsets(
            {place: OffsetSpec.latest()},  # type: ignore[no-untyped-call]
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=ASK_TIMEOUT_S,
        )
        return int(asked[place].result(ASK_TIMEOUT_S).offset)
    except KafkaException as error:
        admin.poll(0)
        raise failure(error.args[0], f"the end of {plan.numbers_place()} is not known", connections) from None


def _last_value(consumer: Consumer, key: bytes, end: int, place: str) -> bytes | None:
    """Return the value of the last record with a key before an offset."""
    value: bytes | None = None
    position, moved_s = 0, monotonic()
    while position < end:
        for message in consumer.consume(READ_MESSAGES, READ_STEP_S):
            error = message.error()
            if error is not None and error.code() != _PARTITION_EOF:
                raise KafkaException(error)
            # The end of a partition is told with the offset behind everything that was passed over.
            after = (message.offset() or 0) + (error is None)
            if after > position:
                position, moved_s = after, monotonic()
            if error is None and message.key() == key:
                found = message.value()
                if found is not None and not isinstance(found, bytes):
                    raise NumbersUnusable(f"{place} has a record that is no number of a batch")
                value = found
        if monotonic() - moved_s > READ_STALLED_S:
            raise ReadFailed(
                f"{place} is read up to offset {position} of {end} only: a transaction is open there; "
                "`ottla transaction list` shows whose"
            )
    return value
