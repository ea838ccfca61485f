"""How a job's topics are reached: the worker's cluster, unless the connector names another. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_spark.job.plan import JobPlan, TopicRead, TopicWrite

KAFKA = "kafka."
BOOTSTRAP = f"{KAFKA}bootstrap.servers"

NOT_TAKEN_OVER = frozenset(
    {
        "auto.offset.reset",
        "client.id",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "message.timeout.ms",
        "partition.assignment.strategy",
    }
)
"""What a worker says to its own clients: a query's offsets are its own, and a task that cannot write is to fail."""

TAKEN_OVER_BY_JAVA = frozenset({"bootstrap.servers", "security.protocol"})
"""What Spark's own source understands of a worker's settings, which are librdkafka's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicClients:
    """How topics are reached.

    Attributes:
        source: the format that reads and writes topics.
        connector: options `kafka.*` of the connector itself.
        consumer: these and the worker's, for reading.
        producer: these and the worker's, for writing.
    """

    source: str
    connector: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)

    def read_options(self, reading: TopicRead) -> dict[str, str]:
        """Return all options with which topics are read; the table's own go before the job's."""
        return {**self._beneath(reading.options, self.consumer), **reading.options}

    def write_options(self, writing: TopicWrite) -> dict[str, str]:
        """Return all options with which a topic is written; the output's own go before the job's."""
        return {**self._beneath(writing.options, self.producer), **writing.options, "topic": writing.topic}

    def _beneath(self, own: Mapping[str, str], common: Mapping[str, str]) -> Mapping[str, str]:
        """Return what holds beside a table's or an output's own options: of the worker's only for its brokers."""
        return self.connector if names_brokers(own) else common


def topic_clients(plan: JobPlan, consumer: Mapping[str, str], producer: Mapping[str, str]) -> TopicClients:
    """Return the options of Kafka clients with which a job reads and writes topics.

    Args:
        plan: what it says goes before the worker's; with brokers of its own nothing of the worker's is used, least
            of all a password.
        consumer: the worker's settings for consumers.
        producer: the worker's settings for producers.
    """
    if reaches_elsewhere(plan):
        consumer = producer = {}
    return TopicClients(
        source=plan.topic_source,
        connector=plan.kafka,
        consumer={**_options(plan, consumer), **plan.kafka},
        producer={**_options(plan, producer), **plan.kafka},
    )


def reaches_elsewhere(plan: JobPlan) -> bool:
    """Return whether the topics may be those of another cluster than the worker's."""
    return names_brokers(plan.kafka)


def names_brokers(options: Mapping[str, str]) -> bool:
    """Return whether options say which brokers."""
    return any(key.lower() == BOOTSTRAP for key in options)


def topics_to_make(plan: JobPlan) -> tuple[str, ...]:
    """Return the topics that a plan writes in the worker's cluster, where they can be made."""
    if reaches_elsewhere(plan):
        return ()
    writings = [each.writing for each in plan.outputs if isinstance(each.writing, TopicWrite)]
    return tuple(each.topic for each in writings if not names_brokers(each.options))


def _options(plan: JobPlan, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        f"{KAFKA}{key}": str(value)
        for key, value in settings.items()
        if (key in TAKEN_OVER_BY_JAVA if plan.topic_source == "kafka" else key not in NOT_TAKEN_OVER)
    }
