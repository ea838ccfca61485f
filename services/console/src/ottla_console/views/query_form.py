"""A query over a range of a topic, as its address has it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla_console.views.message_query import BadQuery, MessageQuery, message_query

RECORDS: Final = 10_000
RECORDS_MAX: Final = 200_000
ROWS_SHOWN: Final = 1_000
ROWS_DOWNLOADED: Final = 100_000
EXAMPLES: Final = (
    ("Newest records", "SELECT * FROM records ORDER BY timestamp DESC LIMIT 50"),
    ("Records by partition", "SELECT partition, count(*) AS records FROM records GROUP BY ALL ORDER BY ALL"),
    (
        "Records by minute",
        "SELECT date_trunc('minute', timestamp) AS minute, count(*) AS records FROM records GROUP BY ALL ORDER BY 1",
    ),
    ("Columns", "DESCRIBE records"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQuery:
    """What is asked.

    Attributes:
        sql: as it was typed.
        records: of the topic that make the table, at most.
        source: which of them: the newest, or those from a start on.
    """

    sql: str
    records: int
    source: MessageQuery

    def parameters(self) -> dict[str, str]:
        """Return the parameters of its address."""
        return {
            "q": self.sql,
            "records": "" if self.records == RECORDS else str(self.records),
            "start": self.source.start_text,
            "partition": "" if self.source.partition is None else str(self.source.partition),
        }


def topic_query(given: Mapping[str, str], partitions: int) -> TopicQuery:
    """Return what an address asks for.

    Raises:
        BadQuery: names what cannot be used.
    """
    start = given.get("start", "").strip()
    ranged = {"order": "oldest" if start else "newest", "start": start, "partition": given.get("partition", "")}
    return TopicQuery(
        sql=given.get("q", ""),
        records=_records(given.get("records", "").strip().replace(",", "")),
        source=message_query(ranged, partitions),
    )


def _records(text: str) -> int:
    if not text:
        return RECORDS
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= RECORDS_MAX:
        raise BadQuery(f"Records: a number from 1 to {RECORDS_MAX:,}")
    return int(text)
