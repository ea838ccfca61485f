"""The resources of the REST API; `entities.py` has the list. What only the leader can do is forwarded to it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

import ottla_core.rest.path_segments  # noqa: F401 - has the paths know `segment`
import ottla_mirror
from ottla_core.errors import OttlaError
from ottla_core.rest.authentication import is_stranger
from ottla_core.rest.documented import errors
from ottla_core.rest.errors import Conflict, Elsewhere, NotFound
from ottla_core.rest.request_bodies import check_media_type, read_body
from ottla_mirror.groups.group_sync import NotLeading, UnknownGroup
from ottla_mirror.rest.bodies import parsed
from ottla_mirror.rest.entities import (
    FlowInfo,
    FlowLag,
    FlowStatus,
    FlowSummary,
    GroupStatus,
    GroupSync,
    NewFlow,
    Throttle,
    TopicStatus,
    WorkerHealth,
    WorkerInfo,
)
from ottla_mirror.rest.gathering import PARTS_PATH, Gathering
from ottla_mirror.rest.views import (
    FlowPart,
    flow_info,
    flow_lag,
    flow_part,
    flow_status,
    flow_summary,
    group_status,
    group_sync,
    topic_statuses,
    unusable_info,
)
from ottla_mirror.workers.mirror_worker import MirrorWorker, Unavailable
from ottla_mirror.workers.target_worker import TargetWorker, UnusableFlow

HEALTH_STATUSES = {"healthy": 200, "starting": 503, "unhealthy": 500}

router = APIRouter(dependencies=[Depends(check_media_type)])

Name = Annotated[str, Path(alias="name", description="The flow's name, such as A->B, escaped as in any URL.")]
Group = Annotated[str, Path(alias="group", description="The group's id, escaped as in any URL.")]


def _worker(request: Request) -> MirrorWorker:
    worker: MirrorWorker = request.app.state.worker
    return worker


def _gathering(request: Request) -> Gathering:
    gathering: Gathering = request.app.state.gathering
    return gathering


TheWorker = Annotated[MirrorWorker, Depends(_worker)]
Others = Annotated[Gathering, Depends(_gathering)]
Body = Annotated[bytes, Depends(read_body)]


@router.get("/", summary="The worker's version, targets and flows", tags=["worker"])
async def worker_info(worker: TheWorker) -> WorkerInfo:
    """Return them."""
    return WorkerInfo(
        version=ottla_mirror.__version__,
        worker_id=worker.url,
        targets=list(worker.targets),
        flows=[name for name, _, _ in worker.flows()],
    )


@router.get("/health", summary="Whether the worker works", tags=["worker"])
async def health(worker: TheWorker, request: Request, response: Response) -> WorkerHealth:
    """Tell whether it is a member of its groups; a target that is away does not make the worker unhealthy."""
    waiting = [f"{each.alias}: {each.problem}" for each in worker.targets.values() if not each.is_ready]
    outside = [
        f"{each.alias}: {each.membership.problem}"
        for each in worker.targets.values()
        if each.is_ready and each.membership.problem
    ]
    status = "starting" if waiting or outside else "healthy"
    response.status_code = HEALTH_STATUSES[status]
    reasons = "its log says why" if is_stranger(request) else "; ".join([*waiting, *outside])
    return WorkerHealth.model_validate({"status": status, "message": reasons if waiting or outside else "it works"})


@router.get("/flows", summary="All flows", tags=["flows"])
async def list_flows(worker: TheWorker, others: Others) -> list[FlowSummary]:
    """Return a line for each."""
    summaries = []
    for name, _, flow in list(worker.flows()):
        info = unusable_info(name, flow) if isinstance(flow, UnusableFlow) else flow_info(flow)
        summaries.append(flow_summary(info, await _status(worker, others, name)))
    return summaries


@router.post("/flows", status_code=201, summary="Make a flow", tags=["flows"], responses=errors(400, 409, 503))
async def create_flow(worker: TheWorker, body: Body) -> FlowInfo:
    """Make a flow between two clusters, which both have to answer; takes a `NewFlow`."""
    new = parsed(NewFlow, body)
    flow = await worker.create(new.source, new.target, new.settings, new.source_settings)
    await worker.targets[flow.target].settle()
    _, found = worker.usable(flow.name)
    return flow_info(found)


@router.get("/flows/{name:segment}", summary="A flow as it is configured", tags=["flows"], responses=errors(404))
async def get_flow(worker: TheWorker, name: Name) -> FlowInfo:
    """Return it; secrets are hidden."""
    _, flow = worker.find(name)
    return unusable_info(name, flow) if isinstance(flow, UnusableFlow) else flow_info(flow)


@router.delete(
    "/flows/{name:segment}", status_code=204, summary="Delete a flow", tags=["flows"], responses=errors(404, 409, 503)
)
async def delete_flow(worker: TheWorker, name: Name) -> None:
    """End a created flow; topics and offsets that it has copied stay."""
    target, _ = worker.find(name)
    await worker.delete(name)
    await target.settle()


@router.get("/flows/{name:segment}/status", summary="What a flow does", tags=["flows"], responses=errors(404))
async def get_status(worker: TheWorker, others: Others, name: Name) -> FlowStatus:
    """Return what all workers say of it."""
    return await _status(worker, others, name)


@router.get("/flows/{name:segment}/lag", summary="How far a flow is behind", tags=["flows"], responses=errors(404))
async def get_lag(worker: TheWorker, others: Others, name: Name) -> FlowLag:
    """Return it, by partition and together."""
    return flow_lag(await _status(worker, others, name))


@router.put(
    "/flows/{name:segment}/pause", status_code=202, summary="Pause a flow", tags=["flows"], responses=errors(404, 503)
)
async def pause_flow(worker: TheWorker, name: Name) -> None:
    """Copy nothing more until it is resumed."""
    await worker.pause(name, paused=True)


@router.put(
    "/flows/{name:segment}/resume",
    status_code=202,
    summary="Resume a flow",
    tags=["flows"],
    responses=errors(404, 503),
)
async def resume_flow(worker: TheWorker, name: Name) -> None:
    """Go on; partitions that have halted are tried again."""
    await worker.pause(name, paused=False)


@router.put(
    "/flows/{name:segment}/throttle",
    status_code=202,
    summary="Limit what a flow copies",
    tags=["flows"],
    responses=errors(400, 404, 503),
)
async def throttle_flow(worker: TheWorker, name: Name, body: Body) -> None:
    """Limit it for all workers together; takes a `Throttle`."""
    await worker.throttle(name, parsed(Throttle, body).bytes_per_second)


@router.get("/flows/{name:segment}/topics", summary="A flow's topics", tags=["topics"], responses=errors(404, 409))
async def get_topics(worker: TheWorker, name: Name) -> list[TopicStatus]:
    """Return the topics that the leader has found."""
    target, flow = worker.usable(name)
    _check_leads(worker, target)
    return topic_statuses(flow)


@router.post(
    "/flows/{name:segment}/topics/refresh",
    summary="Look for topics, partitions and settings now",
    tags=["topics"],
    responses=errors(404, 409, 503),
)
async def refresh_topics(worker: TheWorker, name: Name) -> list[TopicStatus]:
    """Look, and return the topics as they are then."""
    target, flow = worker.usable(name)
    _check_leads(worker, target)
    try:
        await flow.look_now()
    except TimeoutError:
        raise Conflict(f"The leader has not looked at the topics in time: {flow.problem or 'try again'}") from None
    return topic_statuses(flow)


@router.get("/flows/{name:segment}/groups", summary="Consumer groups", tags=["groups"], responses=errors(404, 409))
async def get_groups(worker: TheWorker, name: Name) -> list[GroupStatus]:
    """Return the groups of the source as they were last translated."""
    target, flow = worker.usable(name)
    _check_leads(worker, target)
    return [group_status(group, report) for group, report in sorted(flow.groups.reports.items())]


@router.post(
    "/flows/{name:segment}/groups/{group:segment}/sync",
    summary="Translate a consumer group now",
    tags=["groups"],
    responses=errors(404, 409, 503),
)
async def sync_group(worker: TheWorker, name: Name, group: Group) -> GroupSync:
    """Translate a group, and write its offsets at the target if it has no members there."""
    target, flow = worker.usable(name)
    _check_leads(worker, target)
    try:
        return group_sync(await flow.groups.sync_now(group))
    except NotLeading:
        raise Conflict("Another worker has begun to lead; try again") from None
    except UnknownGroup as error:
        raise NotFound(str(error)) from None
    except OttlaError as error:
        raise Unavailable(str(error)) from None


@router.get(PARTS_PATH + "/{name:segment}", include_in_schema=False)
async def get_part(worker: TheWorker, name: Name) -> FlowPart:
    """Return what this worker knows, to another one."""
    return _part(worker, name)


async def _status(worker: MirrorWorker, others: Gathering, name: str) -> FlowStatus:
    target, flow = worker.find(name)
    if isinstance(flow, UnusableFlow):
        info = unusable_info(name, flow)
        status = flow_status(info, [], [])
        return status.model_copy(update={"state": "FAILED", "reason": flow.reason})
    parts, unreached = await others.parts(name, target.assignment.worker_urls)
    return flow_status(flow_info(flow), [_part(worker, name), *parts], unreached)


def _part(worker: MirrorWorker, name: str) -> FlowPart:
    target, flow = worker.usable(name)
    # Who has never been a member is still starting.
    problem = target.problem or (target.membership.problem if target.rebalances else "")
    return flow_part(flow, url=worker.url, leads=target.leads, target_problem=problem)


def _check_leads(worker: MirrorWorker, target: TargetWorker) -> None:
    """Have the leader answer.

    Raises:
        Elsewhere: another worker leads.
        Conflict: nobody does, as far as is known.
    """
    if target.leads:
        return
    leader = target.assignment.leader_url
    if not leader or leader == worker.url:
        raise Conflict("No worker leads just now; there is probably a rebalance. Try again shortly")
    raise Elsewhere(leader)
