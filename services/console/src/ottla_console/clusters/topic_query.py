"""A query over a range of a topic: its records are read with a user's own rights, a process answers; in a thread."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.topic_reading import Read, read_messages
from ottla_console.views.message_field import Decode
from ottla_console.views.message_rows import field_text
from ottla_console.views.query_form import TopicQuery
from ottla_operations.queries.query_answer import Answer, record_row
from ottla_operations.queries.query_process import QueryProcess, check_sql, prepare, query_process
from ottla_operations.records.bounded_reading import Looked
from ottla_operations.records.record_line import Record
from ottla_operations.records.record_masking import Mask

RECORDS_BYTES_MAX: Final = 64 * 1024 * 1024
READ_AT_ONCE: Final = 50_000


@dataclass(frozen=True, slots=True)
class Queried:
    """What a query gave.

    Attributes:
        answer: it.
        looked: how far was looked for its records, without them.
        records: how many these are.
        problem: what the schema registry has failed with, if it has.
    """

    answer: Answer
    looked: Looked
    records: int
    problem: str | None


def query_topic(
    kit: ClusterKit, mask: Mask, topic: str, partitions: int, query: TopicQuery, *, rows_max: int
) -> Queried:
    """Return the answer to a query over records as the user may see them.

    Raises:
        BadSql: it cannot be answered, or not within the limits.
        OperationError: the cluster does not answer, or refuses; or too many queries are under way.
    """
    sql = check_sql(query.sql)
    with query_process() as process:
        read = _read(kit, mask, topic, partitions, query)
        _give(process, read.looked.records, read.decode)
        answer = process.ask(sql, topic, rows_max)
    prepare()  # whoever asks, asks again
    problem = None if read.decode is None else read.decode.problem
    return Queried(answer, read.looked.without_records(), len(read.looked.records), problem)


def query_topic_for_parquet(
    kit: ClusterKit, mask: Mask, topic: str, partitions: int, query: TopicQuery, *, rows_max: int
) -> tuple[bytes, Looked]:
    """Return the answer to a query as a file of Parquet, and over which records, as the user may see them, it is.

    Raises:
        BadSql: it cannot be answered, or not within the limits.
        OperationError: the cluster does not answer, or refuses; or too many queries are under way.
    """
    sql = check_sql(query.sql)
    with query_process() as process:
        read = _read(kit, mask, topic, partitions, query)
        _give(process, read.looked.records, read.decode)
        return process.ask_for_parquet(sql, topic, rows_max), read.looked


def parquet_file(records: Sequence[Record], decode: Decode | None) -> bytes:
    """Return messages of a topic, masked already, as a file of Parquet, with the fields of their values as columns.

    Raises:
        OperationError: too many queries are under way, or the file would be too large.
    """
    topic = next((each.topic for each in records if each.topic is not None), "")
    with query_process() as process:
        _give(process, records, decode)
        return process.ask_for_parquet("SELECT * FROM records", topic, len(records))


def _read(kit: ClusterKit, mask: Mask, topic: str, partitions: int, query: TopicQuery) -> Read:
    return read_messages(
        kit,
        mask,
        topic,
        partitions,
        query.source,
        wanted=query.records,
        kept_bytes_max=RECORDS_BYTES_MAX,
        at_once=min(query.records + partitions, READ_AT_ONCE),
    )


def _give(process: QueryProcess, records: Iterable[Record], decode: Decode | None) -> None:
    for record in records:
        process.add(record_row(record, field_text(record.value, decode), field_text(record.key, decode)))
