"""A query of the SQL tab as a pipeline: what would be created is shown first, and Connect's workers create it."""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from ottla_console.access.actions import Refused
from ottla_console.clusters.connect_workers import ANSWER_TIMEOUT_S
from ottla_console.pages.connect_access import ask_workers, change_by_workers, why_forbidden
from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import NotFound, Visit
from ottla_console.views.connector_form import found_problems
from ottla_console.views.pipeline_form import (
    MODES,
    PLUGIN,
    BadPipeline,
    PipelineForm,
    pipeline_form,
    suggested,
)
from ottla_console.views.topic_table import TopicRow
from ottla_operations.errors import OperationError
from ottla_operations.workers.connect_client import ConnectClient, plugin_path

CREATE: Final = "connector.create"
VALIDATED_WITHIN_S: Final = ANSWER_TIMEOUT_S + 5
DRAWN_BYTES: Final = 4
SHOWN: Final = "show"
"""The button that asks what would be created."""


async def show(visit: Visit) -> Response:
    """Show the form, and once it is filled in what would be created and what workers find wrong with it."""
    _, row = await topic_row(visit)
    if why := why_no_pipeline(visit, row.name):
        return _page(visit, row, {}, why=why)
    drawn = secrets.token_hex(DRAWN_BYTES)
    typed = suggested(visit.request.query_params, row.name, visit.cluster.connect_checkpoints, drawn)
    if SHOWN not in visit.request.query_params:
        return _page(visit, row, typed)
    try:
        wanted = pipeline_form(typed, row.name)
        problems = await _problems(visit, wanted)
    except (BadPipeline, OperationError) as error:
        return _page(visit, row, typed, problem=str(error), status=400)
    return _page(visit, row, typed, wanted=wanted, problems=problems)


async def create(visit: Visit) -> Response:
    """Create the pipeline; Spark checks the query when it starts, and the connector's page tells what it finds."""
    _, row = await topic_row(visit)
    if why := why_no_pipeline(visit, row.name):
        raise Refused(f"{why}; nothing was changed")
    try:
        wanted = pipeline_form(visit.form, row.name)
        config = wanted.config()
        await change_by_workers(
            visit,
            CREATE,
            wanted.name,
            lambda client: client.ask("POST", "/connectors", {"name": wanted.name, "config": config}),
            plugin=PLUGIN,
            settings=sorted(config),
        )
    except Refused:
        raise
    except (BadPipeline, OperationError) as error:
        return _page(visit, row, visit.form, problem=str(error), status=409)
    address = visit.address("connect", "connectors", wanted.name)
    notice = f"Pipeline {wanted.name} was created. Spark starts it in some seconds, and what it does not understand "
    return visit.redirect(address, notice=f"{notice}is told here.")


def why_no_pipeline(visit: Visit, topic: str) -> str | None:
    """Return why no pipeline of a topic can be made here; None if one can."""
    if visit.cluster.connect_url is None:
        return (
            f"the console knows no Connect workers, which run pipelines; cluster.{visit.cluster.name}.connect.url "
            "names them"
        )
    if visit.mask(topic):
        return f"messages of {topic} have fields that are masked for you, and a pipeline would write them as they are"
    return visit.why_not(CREATE) or why_forbidden(visit, CREATE)


async def _problems(visit: Visit, wanted: PipelineForm) -> list[tuple[str, str]]:
    """Return what a worker finds wrong.

    Raises:
        OperationError: no worker has the plugin, or none answers.
    """

    def question(client: ConnectClient) -> dict[str, Any]:
        infos: dict[str, Any] = client.ask("PUT", plugin_path(PLUGIN, "config", "validate"), wanted.config())
        return infos

    try:
        return found_problems(await ask_workers(visit, question, within_s=VALIDATED_WITHIN_S))
    except NotFound:
        raise OperationError(
            "the workers do not have the plugin ottla-spark, which runs pipelines; install it where they run"
        ) from None


def _page(
    visit: Visit,
    row: TopicRow,
    typed: Mapping[str, str],
    *,
    why: str | None = None,
    wanted: PipelineForm | None = None,
    problems: list[tuple[str, str]] | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    return visit.render(
        "topic_pipeline.html",
        status=status,
        topic=row,
        tab="sql",
        typed=typed,
        modes=MODES,
        why=why,
        wanted=wanted,
        problems=problems or [],
        problem=problem,
        may_create=visit.may(CREATE),
    )


PATH: Final = "/topics/{topic:segment}/pipeline"
VIEWS: Final = (
    View(PATH, show, "topics"),
    View(PATH, create, "topics", method="POST"),
)
