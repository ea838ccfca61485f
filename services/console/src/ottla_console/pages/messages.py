"""The messages of a topic: browsed, searched, downloaded; and one of them whole."""

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from ottla_console.clusters.topic_query import parquet_file
from ottla_console.clusters.topic_reading import (
    ANSWER_WITHIN_S,
    DOWNLOAD_RECORDS_MAX,
    PAGE_RECORDS,
    Read,
    decoder,
    read_messages,
    read_one,
)
from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.message_field import PREVIEW_CHARACTERS, WHOLE_CHARACTERS
from ottla_console.views.message_query import ORDERS, BadQuery, MessageQuery, message_query, place_text
from ottla_console.views.message_rows import csv_table, json_lines, message_row
from ottla_console.views.topic_table import TopicRow
from ottla_operations.records.record_line import Record
from ottla_operations.records.record_search import BadSearch

FORMATS: Final = {
    "jsonl": ("application/x-ndjson", json_lines),
    "csv": ("text/csv; charset=utf-8", csv_table),
    "parquet": ("application/vnd.apache.parquet", parquet_file),
}
DIGITS_MAX: Final = 19
FIELDS: Final = ("key", "value")


async def messages(visit: Visit) -> Response:
    """Show a page of messages; what cannot be used of the address is told beside the form."""
    _, row = await topic_row(visit)
    try:
        query = message_query(visit.request.query_params, row.partitions)
        read = await _read(visit, row, query, PAGE_RECORDS)
        # In a thread, too: a registry may be asked.
        rows = await visit.ask(
            lambda _: [message_row(each, read.decode, PREVIEW_CHARACTERS) for each in read.looked.records],
            within_s=ANSWER_WITHIN_S,
        )
    except (BadQuery, BadSearch) as error:
        return visit.render(
            "topic_messages.html",
            status=400,
            topic=row,
            tab="messages",
            orders=ORDERS,
            typed=visit.request.query_params,
            problem=str(error),
            rows=None,
            is_masked=False,
        )
    parameters = query.parameters()
    return visit.render(
        "topic_messages.html",
        topic=row,
        tab="messages",
        orders=ORDERS,
        typed={**visit.request.query_params, "partition": parameters["partition"]},
        problem=None if read.decode is None else read.decode.problem,
        rows=rows,
        is_masked=bool(visit.mask(row.name)),
        looked=read.looked.without_records(),
        total=sum(end - first for first, end in read.logs.values()),
        is_search=bool(query.words),
        is_first=query.place is None,
        first=visit.address("topics", row.name, "messages", **parameters),
        onward=visit.address("topics", row.name, "messages", **parameters, at=place_text(read.looked.place)),
        downloads={each: _download_address(visit, row, query, each) for each in FORMATS},
        download_max=DOWNLOAD_RECORDS_MAX,
    )


async def download(visit: Visit) -> Response:
    """Answer with the messages that an address asks for, as a file; a header says how far it looked."""
    _, row = await topic_row(visit)
    format_ = visit.request.path_params["format"]
    if format_ not in FORMATS:
        raise NotFound("messages are downloaded as jsonl, csv or parquet")
    try:
        query = message_query(visit.request.query_params, row.partitions)
        read = await _read(visit, row, query, DOWNLOAD_RECORDS_MAX)
    except (BadQuery, BadSearch) as error:
        raise BadForm(str(error)) from None
    kind, written = FORMATS[format_]
    content = await visit.ask(lambda _: written(read.looked.records, read.decode), within_s=ANSWER_WITHIN_S)
    headers = {
        "x-ottla-records": str(len(read.looked.records)),
        "x-ottla-looked-at": str(read.looked.seen),
        "x-ottla-offsets-left": str(read.looked.remaining),
    }
    return file_to_keep(content, f"{row.name}.{format_}", kind, headers)


async def message(visit: Visit) -> Response:
    """Show one message, as whole as a page can."""
    _, row = await topic_row(visit)
    record = await _message(visit, row)
    decode = await visit.ask(decoder)
    shown = await visit.ask(lambda _: message_row(record, decode, WHOLE_CHARACTERS))
    return visit.render(
        "topic_message.html", topic=row, tab="messages", row=shown, is_masked=bool(visit.mask(row.name))
    )


async def field(visit: Visit) -> Response:
    """Answer with the bytes of a key or a value, as a file that no browser shows."""
    _, row = await topic_row(visit)
    name = visit.request.path_params["field"]
    if name not in FIELDS:
        raise NotFound("a message has a key and a value")
    record = await _message(visit, row)
    content = record.key if name == "key" else record.value
    if content is None:
        raise NotFound(f"the message has no {name}: it is null")
    return file_to_keep(
        content, f"{row.name}-{record.partition}-{record.offset}.{name}", "application/octet-stream", {}
    )


async def _read(visit: Visit, row: TopicRow, query: MessageQuery, wanted: int) -> Read:
    return await visit.ask(
        lambda kit: read_messages(kit, visit.mask(row.name), row.name, row.partitions, query, wanted=wanted),
        within_s=ANSWER_WITHIN_S,
    )


async def _message(visit: Visit, row: TopicRow) -> Record:
    given = [visit.request.path_params[each] for each in ("partition", "offset")]
    if not all(each.isascii() and each.isdecimal() and len(each) < DIGITS_MAX for each in given):
        raise NotFound("the address of a message ends in a partition and an offset, as in 0/170")
    partition, offset = map(int, given)
    if partition >= row.partitions:
        raise NotFound(f"topic {row.name} has no partition {partition}")
    found = await visit.ask(
        lambda kit: read_one(kit, visit.mask(row.name), row.name, partition, offset), within_s=ANSWER_WITHIN_S
    )
    if found is None:
        raise NotFound(
            f"partition {partition} of {row.name} has no message at {offset}: it was deleted or compacted, is a "
            "mark of a transaction, or is still to come"
        )
    return found


def _download_address(visit: Visit, row: TopicRow, query: MessageQuery, format_: str) -> str:
    place = {} if query.place is None else {"at": place_text(query.place)}
    given = {name: value for name, value in {**query.parameters(), **place}.items() if value}
    address = visit.address("topics", row.name, "messages.download", format_)
    return f"{address}?{urlencode(given)}" if given else address


def file_to_keep(content: bytes, name: str, kind: str, headers: dict[str, str]) -> Response:
    """Return a file to keep; topics' names have no characters that a header could not hold."""
    kept = "".join(each if each.isalnum() or each in "._-" else "_" for each in name if each.isascii())
    disposition = {"content-disposition": f'attachment; filename="{kept}"', "cache-control": "no-store"}
    return Response(content, media_type=kind, headers={**headers, **disposition})


VIEWS: Final = (
    View("/topics/{topic:segment}/messages", messages, "topics"),
    View("/topics/{topic:segment}/messages/{partition:segment}/{offset:segment}", message, "topics"),
    View("/topics/{topic:segment}/messages/{partition:segment}/{offset:segment}/{field:segment}", field, "topics"),
    View("/topics/{topic:segment}/messages.download/{format:segment}", download, "topics"),
)
