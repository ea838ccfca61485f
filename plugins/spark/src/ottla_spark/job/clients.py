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
        "enable.auto.commit",
        "enable.auto.offset.store",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "partition.assignment.strategy",
    }
)
"""What a worker says to its own consumers; a query's offsets are its own."""

TAKEN_OVER_BY_JAVA = frozenset({"bootstrap.servers", "security.protocol"})
"""What Spark's own source understands of a worker's settings, which are librdkafka's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicClients:
    """How topics are reached.

    Attributes:
        source: the format that reads and writes topics.
        consumer: options `kafka.*` for reading.
        producer: options `kafka.*` for writing.
    """

    source: str
    consumer: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)

    def read_options(self, reading: TopicRead) -> dict[str, str]:
        """Return all options with which topics are read; the table's own go before the job's."""
        return {**self.consumer, **reading.options}

    def write_options(self, writing: TopicWrite) -> dict[str, str]:
        """Return all options with which a topic is written; the output's own go before the job's."""
        return {**self.producer, **writing.options, "topic": writing.topic}


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
        consumer={**_options(plan, consumer), **plan.kafka},
        producer={**_options(plan, producer), **plan.kafka},
    )


def reaches_elsewhere(plan: JobPlan) -> bool:
    """Return whether the topics may be those of another cluster than the worker's."""
    return any(key.lower() == BOOTSTRAP for key in plan.kafka)


def _options(plan: JobPlan, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        f"{KAFKA}{key}": str(value)
        for key, value in settings.items()
        if (key in TAKEN_OVER_BY_JAVA if plan.topic_source == "kafka" else key not in NOT_TAKEN_OVER)
    }
