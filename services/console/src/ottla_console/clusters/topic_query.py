"""A query over a range of a topic: its records are read with a user's own rights, a process answers; in a thread."""

from dataclasses import dataclass
from typing import Final

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.topic_reading import read_messages
from ottla_console.views.message_rows import field_text
from ottla_console.views.query_form import TopicQuery
from ottla_operations.queries.query_answer import Answer, record_row
from ottla_operations.queries.query_process import check_sql, query_process
from ottla_operations.records.bounded_reading import Looked
from ottla_operations.records.record_masking import Mask

RECORDS_BYTES_MAX: Final = 64 * 1024 * 1024
READ_AT_ONCE: Final = 50_000


@dataclass(frozen=True, slots=True)
class Queried:
    """What a query gave, over which records, and what the schema registry has failed with, if it has."""

    answer: Answer
    looked: Looked
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
        read = read_messages(
            kit,
            mask,
            topic,
            partitions,
            query.source,
            wanted=query.records,
            kept_bytes_max=RECORDS_BYTES_MAX,
            at_once=min(query.records + partitions, READ_AT_ONCE),
        )
        for record in read.looked.records:
            row = record_row(record, field_text(record.value, read.decode), field_text(record.key, read.decode))
            process.add(row)
        answer = process.ask(sql, topic, rows_max)
    return Queried(answer, read.looked, None if read.decode is None else read.decode.problem)
