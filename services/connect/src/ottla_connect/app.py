"""The worker process: `ottla-connect --config FILE [--set key=value …]`, or `--standalone` with connector files.

It binds its REST listeners, reads the configuration, status and offset topics, joins the group of workers, and runs
what it is assigned. A stop lets every task finish what is on its way, then leaves the group, so that the others take
over at once.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import structlog

import ottla_connect
from ottla_connect.config import WorkerConfig
from ottla_connect.group.membership import Membership, MembershipFailed
from ottla_connect.group.sole_member import SoleMember
from ottla_connect.herder.api import ConnectorType, ServerInfo
from ottla_connect.herder.cluster_identity import kafka_cluster_id
from ottla_connect.herder.herder import WorkerHerder
from ottla_connect.herder.plugin_catalog import PluginCatalog
from ottla_connect.herder.standalone_connectors import put_connectors
from ottla_connect.herder.task_config_publisher import TaskConfigPublisher, TaskSettings
from ottla_connect.herder.validation import Validation
from ottla_connect.herder.views import CLASS_KEY
from ottla_connect.herder.worker import Worker
from ottla_connect.herder.worker_client import WorkerClient
from ottla_connect.processes.host import ProcessFailed, ProcessHost
from ottla_connect.rest.application import create_application
from ottla_connect.rest.options import RestOptions
from ottla_connect.rest.resources import fencing, tasks
from ottla_connect.state.keyed_log import LogError
from ottla_connect.state.stores import Stores, open_distributed, open_standalone
from ottla_connect.worker_counts import CountRequests, WorkerCounts
from ottla_connect.worker_metrics import WorkerReadings, serve_metrics
from ottla_core.build_info import source_commit
from ottla_core.errors import OttlaError
from ottla_core.lifecycle import run_service, wait_for_end
from ottla_core.observe.logs import configure_logs
from ottla_core.rest.authentication import Access
from ottla_core.rest.errors import Elsewhere
from ottla_core.rest.server import RestServer
from ottla_core.rest.tls_files import client_tls
from ottla_core.rest.worker_signatures import SharedKey

PROGRAM = "ottla-connect"

log = structlog.get_logger("connect")


class WorkerFailed(OttlaError):
    """The worker cannot go on: it can start no processes, or the group refuses it."""


def main() -> int:
    """Run a worker until SIGTERM; returns the exit code."""

    async def serve(stop: asyncio.Event) -> None:
        config = WorkerConfig.load(program=PROGRAM)
        configure_logs("connect", level=config.log_level)
        await run_worker(config, stop)

    return run_service(PROGRAM, serve)


async def run_worker(config: WorkerConfig, stop: asyncio.Event) -> None:
    """Run a worker until `stop` is set.

    Raises:
        RestError: a listener's address is taken.
        ConfigurationError: client settings cannot be used.
        ClusterUnreachable: no Kafka broker answers.
        WorkerFailed: it cannot start, or not go on.
    """
    async with AsyncExitStack() as closing:
        rest = RestServer(config.listeners, config.rest_tls, config.admin_listeners)
        closing.push_async_callback(rest.close)
        url = config.advertised_url(rest.port_of(config.advertised_listener), socket.getfqdn())
        host = ProcessHost()
        closing.push_async_callback(host.close)
        await _start_host(host)
        cluster_id = await kafka_cluster_id(config, stop)
        if stop.is_set():
            return

        stores = open_standalone(config) if config.standalone else open_distributed(config)
        catalog = PluginCatalog(host, config.raw)
        counts = WorkerCounts()
        signer = SharedKey(lambda: _key_of(stores))
        access = _access(config, url, signer, counts)
        client = WorkerClient(
            config, lambda: stores.config.state.session_key, signer=signer, tls=client_tls(config.rest_tls)
        )
        closing.push_async_callback(client.close)
        commit = await asyncio.to_thread(source_commit)
        server = ServerInfo(version=ottla_connect.__version__, commit=commit, kafka_cluster_id=cluster_id)
        herder, worker = _herder(config, url, host=host, stores=stores, catalog=catalog, client=client, server=server)
        await _start_stores(stores, herder)
        closing.push_async_callback(stores.close)
        membership = _membership(config, url, herder, worker, counts)
        herder.join(membership)
        await catalog.refresh()
        closing.push_async_callback(membership.close)
        closing.push_async_callback(herder.close)
        await membership.start()

        options, tls = RestOptions.of(config), client_tls(config.rest_tls)
        app = create_application(herder, own_url=url, options=options, forwarding_tls=tls, access=access)
        app.add_middleware(CountRequests, counts=counts)
        await rest.serve(app)
        if config.shows_metrics:
            readings = _readings(stores, worker, membership, counts)
            closing.callback(serve_metrics(config, worker.id, readings).close)
        log.info("ready", url=url, group=None if config.standalone else config.group_id)
        if config.standalone:
            await put_connectors(herder, config.standalone_connector_files)
        await wait_for_end(stop, rest.wait(), _failure(host.failed), _failure(membership.failed), _lost(stores))


def _herder(
    config: WorkerConfig,
    url: str,
    *,
    host: ProcessHost,
    stores: Stores,
    catalog: PluginCatalog,
    client: WorkerClient,
    server: ServerInfo,
) -> tuple[WorkerHerder, Worker]:
    """Return the herder and its worker, which need each other."""
    herder: WorkerHerder

    async def store_task_configs(name: str, configs: TaskSettings, is_wanted: Callable[[], bool]) -> None:
        await herder.put_task_configs(name, configs, is_wanted)

    async def fence(name: str) -> None:
        try:
            await herder.fence_tasks(name)
        except Elsewhere as elsewhere:
            await client.fence_tasks(elsewhere.url, name)

    def is_transactional(settings: Mapping[str, str]) -> bool:
        kind = catalog.connector_type(settings.get(CLASS_KEY, ""))
        return config.has_transactional_sources and kind is not ConnectorType.SINK

    publisher = TaskConfigPublisher(store=store_task_configs, send=client.put_task_configs)
    worker = Worker(
        url,
        config,
        host=host,
        stores=stores,
        publisher=publisher,
        fence=fence,
        is_transactional=is_transactional,
    )
    herder = WorkerHerder(
        config,
        worker=worker,
        stores=stores,
        catalog=catalog,
        validation=Validation(host, catalog, config.raw),
        logs=host.logs,
        server=server,
    )
    return herder, worker


def _key_of(stores: Stores) -> bytes | None:
    """Return the session key in the config topic, by which workers know each other's requests."""
    key = stores.config.state.session_key
    return None if key is None else key.key


async def _start_host(host: ProcessHost) -> None:
    try:
        await host.start()
    except ProcessFailed as error:
        raise WorkerFailed(f"no processes can be started: {error}") from None


async def _start_stores(stores: Stores, herder: WorkerHerder) -> None:
    try:
        await stores.start(herder.on_config_change)
    except LogError as error:
        raise WorkerFailed(str(error)) from None


def _membership(
    config: WorkerConfig, url: str, herder: WorkerHerder, worker: Worker, counts: WorkerCounts
) -> Membership | SoleMember:
    on_assigned = counts.counting_assignments(herder.on_assigned)
    if config.standalone:
        return SoleMember(url=url, view=herder.group_view, on_assigned=on_assigned, on_lease=worker.extend_lease)
    return Membership(
        config,
        url=url,
        view=herder.group_view,
        on_assigned=on_assigned,
        on_lost=counts.counting_losses(herder.on_lost),
        on_lease=worker.extend_lease,
    )


def _access(config: WorkerConfig, url: str, signer: SharedKey, counts: WorkerCounts) -> Access | None:
    """Return who may use the REST API; None if nobody is asked.

    Raises:
        ConfigurationError: a file that says who may cannot be read.
    """
    if config.rest_access is None:
        return None

    def is_internal(method: str, path: str) -> bool:
        return tasks.is_internal(method, path) or fencing.is_internal(method, path)

    return Access(config.rest_access, signer, own_url=url, is_internal=is_internal, counts=counts.access)


def _readings(
    stores: Stores, worker: Worker, membership: Membership | SoleMember, counts: WorkerCounts
) -> WorkerReadings:
    return WorkerReadings(
        counts=counts,
        assignment=lambda: membership.assignment,
        connector_status=stores.status.connector_status,
        task_status=stores.status.task_status,
        measured=lambda: worker.measured,
    )


async def _failure(failed: asyncio.Future[None]) -> OttlaError | None:
    """Wait until something has failed for good, and return that as an error that ends the process."""
    try:
        await asyncio.shield(failed)
    except (MembershipFailed, ProcessFailed) as error:
        return WorkerFailed(str(error))
    return None


async def _lost(stores: Stores) -> OttlaError:
    """Wait until a store is lost for good, and return that as an error that ends the process."""
    return WorkerFailed(str(await asyncio.shield(stores.failed)))


if __name__ == "__main__":
    sys.exit(main())
