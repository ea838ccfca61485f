"""``/connectors/{connector}/topics``: the topics that a connector has used (KIP-558)."""

from fastapi import APIRouter, Depends, Response

from ottla_connect.rest.entities import ActiveTopics
from ottla_connect.rest.options import RestOptions, TheHerder, TheOptions
from ottla_connect.rest.resources.documented import ConnectorName, errors
from ottla_core.rest.errors import RequestError
from ottla_core.rest.request_bodies import check_media_type

router = APIRouter(prefix="/connectors/{connector:segment}/topics", tags=["topics"])


class TrackingDisabled(RequestError):
    """The worker is configured not to record topics, or not to forget them."""

    status = 403


@router.get("", summary="The topics that a connector has used", responses=errors(403, 404))
async def active_topics(herder: TheHerder, options: TheOptions, connector: ConnectorName) -> dict[str, ActiveTopics]:
    """Return those since it was created, or since they were reset."""
    _check_tracking(options)
    return {connector: ActiveTopics(topics=list(herder.topics(connector)))}


@router.put(
    "/reset",
    status_code=202,
    summary="Forget the topics that a connector has used",
    responses=errors(403, 404),
    response_class=Response,
    dependencies=[Depends(check_media_type)],
)
async def reset_active_topics(herder: TheHerder, options: TheOptions, connector: ConnectorName) -> None:
    """Forget them; those that it goes on to use are recorded anew."""
    _check_tracking(options)
    if not options.topic_tracking_reset:
        raise TrackingDisabled("Topic tracking reset is disabled.")
    await herder.reset_topics(connector)


def _check_tracking(options: RestOptions) -> None:
    if not options.topic_tracking:
        raise TrackingDisabled("Topic tracking is disabled.")
