"""SQL over a range of a topic: one SELECT, its answer as a table, a chart and a file."""

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from ottla_console.clusters.topic_query import RECORDS_BYTES_MAX, Queried, query_topic, query_topic_for_parquet
from ottla_console.clusters.topic_reading import WITHIN_S as READ_WITHIN_S
from ottla_console.pages.messages import file_to_keep
from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.message_query import BadQuery
from ottla_console.views.query_chart import bar_chart, time_chart
from ottla_console.views.query_form import (
    EXAMPLES,
    RECORDS,
    RECORDS_MAX,
    ROWS_DOWNLOADED,
    ROWS_SHOWN,
    TopicQuery,
    topic_query,
)
from ottla_console.views.query_result import result_csv, result_json_lines, result_rows
from ottla_console.views.topic_table import TopicRow
from ottla_operations.errors import OperationError
from ottla_operations.queries.query_answer import SQL_CHARACTERS_MAX, BadSql
from ottla_operations.queries.query_process import WITHIN_S as ANSWERED_WITHIN_S
from ottla_operations.queries.query_process import prepare

FORMATS: Final = {
    "jsonl": ("application/x-ndjson", result_json_lines),
    "csv": ("text/csv; charset=utf-8", result_csv),
}
PARQUET: Final = "parquet"
PARQUET_TYPE: Final = "application/vnd.apache.parquet"
LIMITS: Final = {
    "records_default": RECORDS,
    "records_max": RECORDS_MAX,
    "bytes_max": RECORDS_BYTES_MAX,
    "read_within_s": int(READ_WITHIN_S),
    "answered_within_s": int(ANSWERED_WITHIN_S),
    "rows_max": ROWS_SHOWN,
    "rows_downloaded": ROWS_DOWNLOADED,
    "sql_characters_max": SQL_CHARACTERS_MAX,
}
WITHIN_S: Final = READ_WITHIN_S + ANSWERED_WITHIN_S + 4


async def query(visit: Visit) -> Response:
    """Show a query with its answer; what is wrong with it is told beside it."""
    _, row = await topic_row(visit)
    typed = visit.request.query_params
    try:
        asked = topic_query(typed, row.partitions)
        if not asked.sql.strip():
            await visit.ask(lambda _: prepare())
            return _page(visit, row)
        found = await _ask(visit, row, asked, ROWS_SHOWN)
    except (BadQuery, BadSql) as error:
        return _page(visit, row, status=400, problem=str(error))
    except OperationError as error:
        return _page(visit, row, status=502, problem=str(error))
    answer = found.answer
    return _page(
        visit,
        row,
        problem=found.problem,
        found=found,
        rows=result_rows(answer),
        bars=bar_chart(answer),
        line=time_chart(answer),
        downloads={each: _download_address(visit, row, asked, each) for each in (*FORMATS, PARQUET)},
    )


async def download(visit: Visit) -> Response:
    """Answer with the rows of a query, as a file; headers say over what, and whether there are more."""
    _, row = await topic_row(visit)
    format_ = visit.request.path_params["format"]
    if format_ not in (*FORMATS, PARQUET):
        raise NotFound("the rows of a query are downloaded as jsonl, csv or parquet")
    name = f"{row.name}-query.{format_}"
    try:
        asked = topic_query(visit.request.query_params, row.partitions)
        if format_ == PARQUET:
            content, looked = await visit.ask(
                lambda kit: query_topic_for_parquet(
                    kit, visit.mask(row.name), row.name, row.partitions, asked, rows_max=ROWS_DOWNLOADED
                ),
                within_s=WITHIN_S,
            )
            return file_to_keep(content, name, PARQUET_TYPE, {"x-ottla-records": str(len(looked.records))})
        found = await _ask(visit, row, asked, ROWS_DOWNLOADED)
    except (BadQuery, BadSql) as error:
        raise BadForm(str(error)) from None
    kind, written = FORMATS[format_]
    headers = {
        "x-ottla-records": str(found.records),
        "x-ottla-rows": str(len(found.answer.rows)),
        "x-ottla-rows-left-out": "some" if found.answer.is_cut else "none",
    }
    content = await visit.ask(lambda _: written(found.answer), within_s=WITHIN_S)
    return file_to_keep(content, name, kind, headers)


async def _ask(visit: Visit, row: TopicRow, asked: TopicQuery, rows_max: int) -> Queried:
    return await visit.ask(
        lambda kit: query_topic(kit, visit.mask(row.name), row.name, row.partitions, asked, rows_max=rows_max),
        within_s=WITHIN_S,
    )


def _page(visit: Visit, row: TopicRow, *, status: int = 200, problem: str | None = None, **shown: object) -> Response:
    model = {"found": None, "rows": [], "bars": None, "line": None, "downloads": {}, **shown}
    return visit.render(
        "topic_query.html",
        status=status,
        topic=row,
        tab="sql",
        typed=visit.request.query_params,
        problem=problem,
        examples=EXAMPLES,
        limits=LIMITS,
        **model,
    )


def _download_address(visit: Visit, row: TopicRow, asked: TopicQuery, format_: str) -> str:
    given = {name: value for name, value in asked.parameters().items() if value}
    return f"{visit.address('topics', row.name, 'sql.download', format_)}?{urlencode(given)}"


VIEWS: Final = (
    View("/topics/{topic:segment}/sql", query, "topics"),
    View("/topics/{topic:segment}/sql.download/{format:segment}", download, "topics"),
)
