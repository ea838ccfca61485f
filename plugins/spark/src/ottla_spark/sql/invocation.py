"""What the command line of `ottla sql` says."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_spark.sql.result_format import ResultFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What a session of Spark is for: it is made for these, and serves no others.

    Attributes:
        bootstrap: brokers to ask first, as HOST:PORT with commas between them.
        client_settings: of Kafka clients, under librdkafka's names or Java's.
        connect_url: where workers of Connect listen.
        spark_settings: Spark's.
    """

    bootstrap: str
    client_settings: Mapping[str, str]
    connect_url: str
    spark_settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One command.

    Attributes:
        script: the statements; None for the prompt.
        connections: what it needs.
        stream: whether every query emits changes.
        form: how results are written.
        rows_max: how many rows of a result are shown.
        timeout_s: how long a statement may take.
    """

    script: str | None
    connections: Connections
    stream: bool
    form: ResultFormat
    rows_max: int | None
    timeout_s: float | None
