"""Publishing a message, typed anew or copied from another with changes."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from ottla_console.access.actions import Refused
from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.topic_reading import ANSWER_WITHIN_S, COPIED_BYTES_MAX, read_one
from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import BadForm, Visit
from ottla_console.views.message_form import FORMATS, SCHEMA, BadMessage, copied_form, typed_message
from ottla_console.views.message_query import BadQuery, message_query
from ottla_console.views.topic_table import TopicRow
from ottla_operations.errors import OperationError
from ottla_operations.records.bounded_reading import publish_one
from ottla_operations.records.field_codec import FieldFormat
from ottla_operations.records.record_line import Record
from ottla_operations.schemas.schema_codec import SchemaCodec

ACKNOWLEDGED_WITHIN_S: Final = 8.0
NAMES: Final = ("key", "value")


async def show(visit: Visit) -> Response:
    """Show the form, filled in where the address names a message to copy as ``copy=PARTITION:OFFSET``."""
    _, row = await topic_row(visit)
    copied = visit.query("copy")
    if not copied:
        return _form(visit, row, {})
    try:
        place = message_query({"at": copied}, row.partitions).place or {}
    except BadQuery as error:
        raise BadForm(str(error)) from None
    if len(place) != 1:
        raise BadForm("copy: it is PARTITION:OFFSET of one message")
    ((partition, offset),) = place.items()
    mask = visit.mask(row.name)
    if mask:
        raise Refused(
            f"messages of {row.name} have fields that are masked for you; a copy would have them masked, too"
        )
    record = await visit.ask(lambda kit: read_one(kit, mask, row.name, partition, offset), within_s=ANSWER_WITHIN_S)
    if record is None:
        raise BadForm(f"partition {partition} of {row.name} has no message at {offset} any more")
    if len(record.key or b"") + len(record.value or b"") > COPIED_BYTES_MAX:
        raise BadForm(f"messages are copied up to {COPIED_BYTES_MAX:,} bytes; use ottla consume and ottla produce")
    return _form(visit, row, copied_form(record))


async def publish(visit: Visit) -> Response:
    """Publish what was typed; what is wrong with it is told beside the form as it was filled in."""
    _, row = await topic_row(visit)
    try:
        record = await visit.ask(lambda kit: _typed(kit, visit.form, row))
        partition, offset = await visit.act(
            "message.publish",
            row.name,
            lambda: visit.ask(lambda kit: publish_one(kit.config, record, within_s=ACKNOWLEDGED_WITHIN_S)),
            partition=record.partition,
            key_bytes=None if record.key is None else len(record.key),
            value_bytes=None if record.value is None else len(record.value),
        )
    except Refused:
        raise
    except (BadMessage, OperationError) as error:
        return _form(visit, row, visit.form, problem=str(error))
    address = visit.address("topics", row.name, "messages", str(partition), str(offset))
    return visit.redirect(address, notice=f"The message was published to partition {partition} at offset {offset}.")


def _typed(kit: ClusterKit, form: Mapping[str, str], row: TopicRow) -> Record:
    registry = kit.registry()
    wanted = [name for name in NAMES if registry is not None and form.get(f"{name}_format") == SCHEMA]
    schemas = {}
    for name in wanted:
        assert registry is not None
        schemas[name] = SchemaCodec(registry, FieldFormat.SCHEMA, f"{row.name}-{name}")
    return typed_message(form, row.name, row.partitions, schemas)


def _form(visit: Visit, row: TopicRow, typed: Mapping[str, str], problem: str | None = None) -> Response:
    has_registry = visit.cluster.schema_registry_url is not None
    return visit.render(
        "topic_publish.html",
        status=200 if problem is None else 400,
        topic=row,
        tab="messages",
        typed=typed,
        problem=problem,
        formats={each: title for each, title in FORMATS.items() if has_registry or each != SCHEMA},
    )


VIEWS: Final = (
    View("/topics/{topic:segment}/publish", show, "topics"),
    View("/topics/{topic:segment}/publish", publish, "topics", method="POST"),
)
