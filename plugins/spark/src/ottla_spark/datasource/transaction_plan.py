"""What a query needs to know to write its batches exactly once, from its options and columns. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from ottla_sdk import InvalidConfig, Problem
from ottla_spark.datasource.client_options import Settings, librdkafka_settings
from ottla_spark.datasource.writing_plan import LEGAL_TOPIC, TOPIC, WritePlan, write_plan

NUMBERS_TOPIC = "batchNumbersTopic"
ID_PREFIX = "transactionalIdPrefix"
SINCE = "exactlyOnceSince"

NUMBERS_TOPIC_DEFAULT = "ottla-spark-batches"
ID_PREFIX_DEFAULT = "ottla-spark"
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
TRANSACTION_TIMEOUT_DEFAULT_MS = 600_000
"""Ten minutes, for a batch has to be written within it. Brokers allow fifteen unless they are told otherwise."""
MESSAGE_TIMEOUT = "message.timeout.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan:
    """What a task needs to know that writes a batch.

    Attributes:
        write: the records, and the producer's settings.
        numbers_topic: where the numbers of batches are.
        id_prefix: what transactional ids begin with.
        since: the first batch that was written exactly once.
        consumer_settings: librdkafka's, to read the numbers.
        admin_settings: likewise, to make their topic and to ask for its end.
    """

    write: WritePlan
    numbers_topic: str
    id_prefix: str
    since: int
    consumer_settings: Settings
    admin_settings: Settings

    def transactional_id(self, query_id: str) -> str:
        """Return the transactional id under which a query writes."""
        return f"{self.id_prefix}-{query_id}"

    def numbers_place(self) -> str:
        """Return where the numbers are, for messages."""
        return f"topic {self.numbers_topic!r}"


def transaction_plan(options: Mapping[str, str], schema: StructType) -> TransactionPlan:
    """Return the plan.

    Args:
        options: of the query, in whatever case.
        schema: its columns.

    Raises:
        InvalidConfig: options or columns are wrong; all that is wrong is in it.
    """
    lowered = {key.lower(): value.strip() for key, value in options.items()}
    numbers_topic = lowered.get(NUMBERS_TOPIC.lower(), NUMBERS_TOPIC_DEFAULT)
    id_prefix = lowered.get(ID_PREFIX.lower(), ID_PREFIX_DEFAULT)
    since = lowered.get(SINCE.lower(), "0")
    problems = [*_option_problems(numbers_topic, id_prefix, since, lowered.get(TOPIC))]
    try:
        written = write_plan(options, schema)
    except InvalidConfig as error:
        raise InvalidConfig([*problems, *error.problems]) from None
    settings = {TRANSACTION_TIMEOUT: TRANSACTION_TIMEOUT_DEFAULT_MS, **written.settings}
    if int(settings[TRANSACTION_TIMEOUT]) < int(settings[MESSAGE_TIMEOUT]):
        problems.append(
            Problem(
                f"kafka.{TRANSACTION_TIMEOUT}",
                f"{settings[TRANSACTION_TIMEOUT]} is less than kafka.delivery.timeout.ms "
                f"({settings[MESSAGE_TIMEOUT]}); a transaction has to outlast the delivery of its records",
            )
        )
    if problems:
        raise InvalidConfig(problems)
    return TransactionPlan(
        write=WritePlan(settings=settings, topic=written.topic, columns=written.columns),
        numbers_topic=numbers_topic,
        id_prefix=id_prefix,
        since=int(since),
        # No offset is committed to the group: it is a name that brokers may have to allow.
        consumer_settings={"group.id": f"{id_prefix}-reader", **librdkafka_settings(options, kind="consumer")},
        admin_settings=librdkafka_settings(options, kind="admin"),
    )


def _option_problems(numbers_topic: str, id_prefix: str, since: str, topic: str | None) -> list[Problem]:
    problems = []
    if not LEGAL_TOPIC.fullmatch(numbers_topic):
        problems.append(Problem(NUMBERS_TOPIC, f"{numbers_topic!r} is no name of a topic"))
    if numbers_topic == topic:
        problems.append(Problem(NUMBERS_TOPIC, "has to be another topic than that of the records"))
    if not id_prefix:
        problems.append(Problem(ID_PREFIX, "is empty"))
    if not re.fullmatch(r"\d+", since):
        problems.append(Problem(SINCE, f"has to be the number of a batch, got {since!r}"))
    return problems
