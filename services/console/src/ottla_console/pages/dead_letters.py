"""The dead letters of a sink: browsed with their reasons, and sent again."""

from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.topic_reading import (
    ANSWER_WITHIN_S,
    PAGE_RECORDS,
    SchemaDecoder,
    decoder,
    read_messages,
    read_one,
)
from ottla_console.pages.connect_access import Connector, connector_of
from ottla_console.pages.connector import render_connector
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.connector import dead_letter_topic
from ottla_console.views.dead_letter import (
    DeadLetter,
    NotSendable,
    dead_letter,
    masked_letter,
    sent_again,
    source_topics,
)
from ottla_console.views.message_field import PREVIEW_CHARACTERS, WHOLE_CHARACTERS
from ottla_console.views.message_query import BadQuery, message_query, place_text
from ottla_console.views.message_rows import message_row
from ottla_operations.errors import OperationError
from ottla_operations.records.bounded_reading import publish_one
from ottla_operations.records.record_line import Record
from ottla_operations.records.record_masking import Mask

ACKNOWLEDGED_WITHIN_S: Final = 8.0
DIGITS_MAX: Final = 19
MASKED: Final = "fields of its topic are masked for you"


async def letters(visit: Visit) -> Response:
    """Show a page of dead letters, the newest first."""
    connector, topic = await _letters_of(visit)
    partitions = await _partitions(visit, topic)
    if partitions is None:
        return render_connector(
            visit, connector, "dead_letters.html", "dead-letters", topic=topic, rows=None, more=None
        )
    try:
        query = message_query({"at": visit.query("at"), "partition": visit.query("partition")}, partitions)
    except BadQuery as error:
        raise BadForm(str(error)) from None
    mask = visit.mask(topic)
    read = await visit.ask(
        lambda kit: read_messages(kit, mask, topic, partitions, query, wanted=PAGE_RECORDS), within_s=ANSWER_WITHIN_S
    )
    shown = [_as_shown(visit, connector, each, mask, read.decode) for each in read.looked.records]
    rows = [(message_row(record, None, PREVIEW_CHARACTERS), found) for record, found, _ in shown]
    here = ("connect", "connectors", connector.name, "dead-letters")
    more = visit.address(*here, at=place_text(read.looked.place)) if read.looked.remaining else None
    return render_connector(visit, connector, "dead_letters.html", "dead-letters", topic=topic, rows=rows, more=more)


async def letter(visit: Visit) -> Response:
    """Show a dead letter with the whole error."""
    connector, topic = await _letters_of(visit)
    partition, offset = _place(visit)
    mask = visit.mask(topic)
    read = await visit.ask(lambda kit: _record(kit, mask, topic, partition, offset), within_s=ANSWER_WITHIN_S)
    decode = await visit.ask(decoder)
    record, found, is_masked = await visit.ask(
        lambda _: _as_shown(visit, connector, read, mask, decode), within_s=ANSWER_WITHIN_S
    )
    row = await visit.ask(lambda _: message_row(record, decode, WHOLE_CHARACTERS), within_s=ANSWER_WITHIN_S)
    target, problem = None, MASKED if is_masked else None
    if not is_masked:
        try:
            target = sent_again(record, connector.config)
        except NotSendable as error:
            problem = str(error)
    return render_connector(
        visit,
        connector,
        "dead_letter.html",
        "dead-letters",
        topic=topic,
        row=row,
        letter=found,
        is_masked=is_masked,
        target=target,
        problem=problem,
    )


async def send_again(visit: Visit) -> Response:
    """Publish a dead letter to the partition that it is from; the letter itself stays."""
    connector, topic = await _letters_of(visit)
    partition, offset = _place(visit)
    mask = visit.mask(topic)
    record = await visit.ask(lambda kit: _record(kit, mask, topic, partition, offset), within_s=ANSWER_WITHIN_S)
    *_, is_masked = await visit.ask(lambda _: _as_shown(visit, connector, record, mask, None))
    if is_masked:
        raise BadForm(f"it was not sent: {MASKED}")
    try:
        wanted = sent_again(record, connector.config)
    except NotSendable as error:
        raise BadForm(f"it was not sent: {error}") from None
    assert wanted.topic is not None
    there, at = await visit.act(
        "dead-letter.send-again",
        wanted.topic,
        lambda: visit.ask(lambda kit: publish_one(kit.config, wanted, within_s=ACKNOWLEDGED_WITHIN_S)),
        connector=connector.name,
        letter=[topic, partition, offset],
        partition=wanted.partition,
    )
    return visit.redirect(
        visit.address("connect", "connectors", connector.name, "dead-letters", str(partition), str(offset)),
        notice=f"It was sent to {wanted.topic}, partition {there}, offset {at}.",
    )


async def _letters_of(visit: Visit) -> tuple[Connector, str]:
    connector = await connector_of(visit)
    topic = dead_letter_topic(connector.config, connector.type)
    if topic is None:
        raise NotFound(
            f"{connector.name} has no topic for dead letters: errors.deadletterqueue.topic.name is not set"
        )
    return connector, topic


async def _partitions(visit: Visit, topic: str) -> int | None:
    """Return how many partitions a topic has; None where it is not there, or the user may not see it."""
    return (await visit.watch.view.get()).topics.get(topic)


def _place(visit: Visit) -> tuple[int, int]:
    given = [visit.request.path_params[each] for each in ("partition", "offset")]
    if not all(each.isascii() and each.isdecimal() and len(each) < DIGITS_MAX for each in given):
        raise NotFound("the address of a dead letter ends in a partition and an offset, as in 0/170")
    partition, offset = map(int, given)
    if partition > 2**31 - 1:
        raise NotFound("there is no such partition")
    return partition, offset


def _as_shown(
    visit: Visit, connector: Connector, record: Record, mask: Mask, decode: SchemaDecoder | None
) -> tuple[Record, DeadLetter, bool]:
    """Return a dead letter as the user may see it, and whether something may be masked.

    Args:
        visit: the user's.
        connector: whose dead letter it is.
        record: the dead letter, which has been through `mask`.
        mask: of the letter's own topic.
        decode: what decodes keys and values with a schema.
    """
    found = dead_letter(record)
    masks = [mask, *(visit.mask(each) for each in source_topics(connector.config, found))]
    record, found = masked_letter(record, found, masks, decode)
    return record, found, any(masks)


def _record(kit: ClusterKit, mask: Mask, topic: str, partition: int, offset: int) -> Record:
    record = read_one(kit, mask, topic, partition, offset)
    if record is None:
        raise OperationError(f"partition {partition} of {topic} has no message at {offset}, or not any more")
    return record


VIEWS: Final = (
    View("/connect/connectors/{connector:segment}/dead-letters", letters, "connect"),
    View(
        "/connect/connectors/{connector:segment}/dead-letters/{partition:segment}/{offset:segment}", letter, "connect"
    ),
    View(
        "/connect/connectors/{connector:segment}/dead-letters/{partition:segment}/{offset:segment}",
        send_again,
        "connect",
        method="POST",
    ),
)
"""Dead letters."""
