"""Dead letters of a sink: where each is from and why it was left, by Connect's context headers, in words. Pure.

Whoever may write to the topic may write such headers, so they are read with care: a letter is sent again only to a
topic that the connector reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla_console.views.message_field import escaped
from ottla_operations.records.record_line import Record
from ottla_operations.records.record_masking import Decoded, Mask

PREFIX: Final = "__connect.errors."
"""Of the headers (KIP-298)."""
STAGES: Final[Mapping[str, str]] = {
    "TASK_PUT": "the sink did not take it",
    "TASK_POLL": "the source did not give it",
    "TRANSFORMATION": "a transform failed",
    "KEY_CONVERTER": "its key could not be converted",
    "VALUE_CONVERTER": "its value could not be converted",
    "HEADER_CONVERTER": "a header could not be converted",
    "KAFKA_PRODUCE": "it could not be written to Kafka",
    "KAFKA_CONSUME": "it could not be read from Kafka",
}
TEXT_MAX: Final = 2_000
TRACE_MAX: Final = 50_000
PARTITION_DIGITS_MAX: Final = 9
OFFSET_DIGITS_MAX: Final = 19
INTERNAL: Final = "__"


class NotSendable(ValueError):
    """A dead letter cannot be sent again; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What the headers of a dead letter say.

    Attributes:
        topic, partition, offset: where it is from; None where the headers do not say it.
        connector, task: that left it; empty likewise.
        stage: what failed, in words; empty likewise.
        operator: the class that failed.
        error: the class of the error.
        message, trace: of the error, within bounds; empty where they may tell what is masked.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    connector: str
    task: str
    stage: str
    operator: str
    error: str
    message: str
    trace: str

    @property
    def reason(self) -> str:
        """Why it was left, in a sentence."""
        told = ": ".join(each for each in (self.stage, self.message or self.error) if each)
        return told or "the headers do not say why; set errors.deadletterqueue.context.headers.enable"


def dead_letter(record: Record) -> DeadLetter:
    """Return what a record's headers say; of several of one name the last."""
    found = {
        name.removeprefix(PREFIX): value
        for name, value in record.headers
        if name.startswith(PREFIX) and value is not None
    }

    def text(name: str, most: int = TEXT_MAX) -> str:
        return escaped(found.get(name, b"")[: 4 * most].decode(errors="replace")[:most])

    stage = text("stage")
    return DeadLetter(
        topic=_topic(found.get("topic")),
        partition=_number(found.get("partition"), PARTITION_DIGITS_MAX),
        offset=_number(found.get("offset"), OFFSET_DIGITS_MAX),
        connector=text("connector.name"),
        task=text("task.id"),
        stage=STAGES.get(stage, stage),
        operator=text("class.name"),
        error=text("exception.class.name"),
        message=text("exception.message"),
        trace=_lines(found.get("exception.stacktrace", b"")),
    )


def sent_again(record: Record, config: Mapping[str, str]) -> Record:
    """Return the record that sends a dead letter to where it was from, without Connect's headers.

    Args:
        record: the dead letter.
        config: of the sink.

    Raises:
        NotSendable: the headers do not say where it is from, or the sink does not read that topic.
    """
    letter = dead_letter(record)
    if letter.topic is None or letter.partition is None:
        raise NotSendable(
            "its headers do not say which topic and partition it is from; connectors write that with "
            "errors.deadletterqueue.context.headers.enable=true"
        )
    topics = {each.strip() for each in config.get("topics", "").split(",") if each.strip()}
    if (topics and letter.topic not in topics) or letter.topic.startswith(INTERNAL):
        raise NotSendable(f"its headers name topic {letter.topic}, which the connector does not read")
    headers = tuple((name, value) for name, value in record.headers if not name.startswith(PREFIX))
    return Record(topic=letter.topic, partition=letter.partition, key=record.key, value=record.value, headers=headers)


def source_topics(config: Mapping[str, str], letter: DeadLetter) -> list[str]:
    """Return the topics that a dead letter may be from: whoever wrote it could have left its headers out."""
    named = {each.strip() for each in config.get("topics", "").split(",")}
    return sorted((named | {letter.topic or ""}) - {""})


def masked_letter(
    record: Record, letter: DeadLetter, masks: Sequence[Mask], decode: Decoded | None
) -> tuple[Record, DeadLetter]:
    """Return a dead letter as it may be shown: errors quote what they could not handle, so they are hidden, too.

    Args:
        record: the dead letter, as its own topic's rules leave it.
        letter: what its headers say.
        masks: of its own topic, and of those that it may be from.
        decode: what decodes keys and values with a schema.
    """
    for mask in masks:
        record = mask.record(record, decode)
    return record, replace(letter, message="", trace="") if any(masks) else letter


def _topic(value: bytes | None) -> str | None:
    text = (value or b"")[:1000].decode(errors="replace")
    return text if text and len(text) <= 249 and all(each.isalnum() or each in "._-" for each in text) else None


def _number(value: bytes | None, digits_max: int) -> int | None:
    is_number = value is not None and value.isdigit() and len(value) <= digits_max
    return int(value) if is_number and value is not None else None


def _lines(value: bytes) -> str:
    text = value[:TRACE_MAX].decode(errors="replace")
    return "\n".join(escaped(each) for each in text.splitlines())
