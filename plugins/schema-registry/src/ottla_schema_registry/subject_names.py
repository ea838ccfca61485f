"""Under which subject of the registry a schema is found: Confluent's strategies. Pure.

| strategy | subject |
|---|---|
| TopicNameStrategy | TOPIC-key, TOPIC-value |
| RecordNameStrategy | the schema's full name |
| TopicRecordNameStrategy | TOPIC-the schema's full name |
"""

import enum

from ottla_sdk import DataError


class SubjectNameStrategy(enum.StrEnum):
    """What makes a subject's name."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"

    @classmethod
    def parse(cls, text: object) -> object:
        """Return the strategy of a name, which may be that of the Java class."""
        if not isinstance(text, str) or isinstance(text, cls):
            return text
        return text.removeprefix("io.confluent.kafka.serializers.subject.")


def subject_name(strategy: SubjectNameStrategy, topic: str, *, is_key: bool, record_name: str | None) -> str:
    """Return the subject of a schema.

    Args:
        strategy: what makes the name.
        topic: the topic.
        is_key: whether it is the schema of keys.
        record_name: the schema's full name; None if it has none.

    Raises:
        DataError: the strategy needs a name, and the schema has none.
    """
    if strategy is SubjectNameStrategy.TOPIC:
        return f"{topic}-{'key' if is_key else 'value'}"
    if not record_name:
        raise DataError(f"the {strategy} needs the schema's name, and it has none")
    return record_name if strategy is SubjectNameStrategy.RECORD else f"{topic}-{record_name}"
