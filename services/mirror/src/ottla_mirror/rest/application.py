"""The REST API as one application over a `MirrorWorker`."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import ottla_mirror
from ottla_core.rest.authentication import Access
from ottla_core.rest.common_layers import surround
from ottla_core.rest.forwarding import Forwarder
from ottla_mirror.rest import flows
from ottla_mirror.rest.gathering import Gathering
from ottla_mirror.workers.mirror_worker import MirrorWorker

DESCRIPTION = "Mirrors topics and groups from one Kafka cluster to another: flows, how they fare, what steers them."


def create_application(
    worker: MirrorWorker, tls: ssl.SSLContext | None = None, access: Access | None = None
) -> FastAPI:
    """Return the application.

    Args:
        worker: what answers.
        tls: how other workers with an https URL are trusted.
        access: who may use it; None: whoever reaches it.
    """
    forwarder = Forwarder(worker.url, tls, signer=worker.key)
    gathering = Gathering(worker.url, tls, worker.key)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await forwarder.close()
        await gathering.close()

    app = FastAPI(
        title="Ottla Mirror",
        description=DESCRIPTION,
        version=ottla_mirror.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.worker = worker
    app.state.gathering = gathering
    app.state.routes = list(flows.router.routes)
    app.include_router(flows.router)
    settings = worker.config.worker
    surround(
        app,
        forwarder,
        allowed_origins=settings.allowed_origins,
        allowed_methods=settings.access_control_allow_methods,
        access=access,
    )
    return app
