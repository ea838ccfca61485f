"""Which topics a table reads, and which of them are missing. Pure."""

import re
from collections.abc import Iterable

from ottla_spark.job.plan import Table, TopicRead


def matches(reading: TopicRead, topic: str) -> bool:
    """Return whether a topic is among those that are read."""
    return re.fullmatch(reading.pattern, topic) is not None if reading.pattern else topic in reading.topics


def missing_topics(tables: Iterable[Table], existing: Iterable[str]) -> list[str]:
    """Return a sentence for each table whose topics are not there; a pattern may match none as yet."""
    there = set(existing)
    sentences = []
    for table in tables:
        if isinstance(table.reading, TopicRead) and (missing := [t for t in table.reading.topics if t not in there]):
            these = f"topics {', '.join(missing)}" if len(missing) > 1 else f"topic {missing[0]}"
            do = "do" if len(missing) > 1 else "does"
            sentences.append(f"the {these} of the table {table.name} {do} not exist")
    return sentences
