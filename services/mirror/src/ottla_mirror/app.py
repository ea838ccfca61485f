"""The worker process: `ottla-mirror --config FILE [--set key=value …]`.

It runs on uvloop, on which a batch costs about a tenth less CPU than on asyncio's own event loop.

It binds its REST listeners, looks whether it can reach the clusters of its flows, joins the group of workers at each
target, and copies what it is assigned. A stop stores how far it has come, then leaves the groups, so that the others
take over at once.
"""

import asyncio
import gc
import socket
import sys
from contextlib import AsyncExitStack

import structlog
import uvloop

from ottla_core.errors import OttlaError
from ottla_core.lifecycle import run_service, wait_for_end
from ottla_core.observe.logs import configure_logs
from ottla_core.readiness import announce_ready
from ottla_core.rest.authentication import Access, AccessCounts
from ottla_core.rest.server import RestServer
from ottla_core.rest.tls_files import client_tls
from ottla_mirror.config.mirror_config import PROGRAM, MirrorConfig
from ottla_mirror.rest.application import create_application
from ottla_mirror.rest.gathering import is_internal
from ottla_mirror.start_check import check_flows
from ottla_mirror.worker_metrics import serve_metrics
from ottla_mirror.workers.mirror_worker import MirrorWorker

log = structlog.get_logger("mirror")


def main() -> int:
    """Run a worker until SIGTERM; returns the exit code."""

    async def serve(stop: asyncio.Event) -> None:
        config = MirrorConfig.load()
        configure_logs("mirror", level=config.worker.log_level)
        await run_worker(config, stop)

    return run_service(PROGRAM, serve, uvloop.new_event_loop)


async def run_worker(config: MirrorConfig, stop: asyncio.Event) -> None:
    """Run a worker until `stop` is set.

    Raises:
        RestError: a listener's address is taken.
        ConfigurationError: a flow cannot be between its clusters, or a cluster does not accept us.
        Unreachable: no cluster of any flow answers.
    """
    for note in config.notes:
        log.info("setting without effect", setting=note.partition(":")[0], reason=note.partition(": ")[2])
    async with AsyncExitStack() as closing:
        rest = RestServer(config.worker.listeners, config.worker.rest_tls, config.worker.admin_listeners)
        closing.push_async_callback(rest.close)
        await check_flows(config)
        url = config.worker.advertised_url(rest.port_of(config.worker.advertised_listener), socket.getfqdn())
        worker = MirrorWorker(config, url)
        closing.push_async_callback(worker.close)
        worker.start()
        counts = AccessCounts()
        access = config.worker.rest_access
        asked = (
            None
            if access is None
            else Access(access, worker.key, own_url=url, is_internal=is_internal, counts=counts)
        )
        await rest.serve(create_application(worker, client_tls(config.worker.rest_tls), asked))
        if config.worker.shows_metrics:
            closing.callback(serve_metrics(config.worker, worker, counts).close)
        log.info("serving", url=url, targets=list(worker.targets), flows=list(config.flows))
        # What was imported stays; without it full collections are short, and there is one every few thousand batches.
        gc.collect()
        gc.freeze()
        announce_ready()
        await wait_for_end(stop, _ended(rest))


async def _ended(rest: RestServer) -> OttlaError | None:
    return await rest.wait()


if __name__ == "__main__":
    sys.exit(main())
