"""Warming up what compiles itself while it runs: Kafka is several times slower when it has just started."""

from benchmarks.client import Subject, temporary_topic
from benchmarks.throughput import Load, consume, produce

WARM_UP_BYTES = 2_000_000_000
"""Published and read back: enough for Java's compilers to be done with these paths."""
WARM_UP_RECORD_BYTES = 1000


def warm_up(subject: Subject) -> None:
    """Have a broker do what is going to be measured, until it does it as well as it can."""
    with temporary_topic(subject.bootstrap) as topic:
        warm_up_topic(subject, topic, "1")


def warm_up_topic(subject: Subject, topic: str, acks: str) -> None:
    """Do so with a topic that is there."""
    load = Load(WARM_UP_RECORD_BYTES, WARM_UP_BYTES, acks)
    produce(subject, topic, load)
    consume(subject, topic, load.records)
