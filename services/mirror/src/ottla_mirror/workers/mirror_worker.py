"""A mirror worker: a `TargetWorker` for each target, and what can be asked of them together."""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping

from ottla_core.errors import ConfigurationError, OttlaError
from ottla_core.rest.errors import BadRequest, Conflict, NotFound, RequestError
from ottla_mirror.config.mirror_config import FlowConfig, MirrorConfig
from ottla_mirror.state.flow_records import Steering
from ottla_mirror.workers.clusters import FlowRefused
from ottla_mirror.workers.flow_work import FlowWork
from ottla_mirror.workers.memory_shares import MemoryShares
from ottla_mirror.workers.target_worker import TargetWorker, UnusableFlow
from ottla_mirror.workers.worker_keys import OwnKey


class Unavailable(RequestError):
    """A cluster does not answer, or does not accept us."""

    status = 503


class MirrorWorker:
    """What the REST API asks.

    Args:
        config: the worker's configuration.
        url: where its REST API is.

    Attributes:
        key: by which other workers know its requests, and it theirs.
    """

    def __init__(self, config: MirrorConfig, url: str) -> None:
        self.url = url
        self.config = config
        memory = MemoryShares(config.worker.memory_max_bytes)
        self.key = OwnKey()
        self.targets = {
            alias: TargetWorker(config, alias, url, memory, public_key=self.key.public) for alias in config.targets
        }
        self.key.others = lambda: (key for target in self.targets.values() for key in target.assignment.worker_keys)

    def start(self) -> None:
        """Begin."""
        for target in self.targets.values():
            target.start()

    async def close(self) -> None:
        """Stop in order, and leave all groups."""
        await asyncio.gather(*(target.close() for target in self.targets.values()))

    def flows(self) -> Iterator[tuple[str, TargetWorker, FlowWork | UnusableFlow]]:
        """Yield all flows by name, those too that this worker cannot run."""
        found: dict[str, tuple[TargetWorker, FlowWork | UnusableFlow]] = {}
        for target in self.targets.values():
            found.update({name: (target, flow) for name, flow in target.unusable.items()})
            found.update({name: (target, flow) for name, flow in target.flows.items()})
        for name in sorted(found):
            yield name, *found[name]

    def find(self, name: str) -> tuple[TargetWorker, FlowWork | UnusableFlow]:
        """Return a flow and the target where it runs.

        Raises:
            NotFound: there is none of this name.
        """
        for each, target, flow in self.flows():
            if each == name:
                return target, flow
        known = ", ".join(each for each, _, _ in self.flows()) or "none"
        raise NotFound(f"There is no flow {name}; there are: {known}")

    def usable(self, name: str) -> tuple[TargetWorker, FlowWork]:
        """Return a flow that this worker runs.

        Raises:
            NotFound: there is none of this name.
            Conflict: this worker cannot run it.
        """
        target, flow = self.find(name)
        if isinstance(flow, UnusableFlow):
            raise Conflict(f"{name} cannot be run by this worker: {flow.reason}")
        return target, flow

    async def create(
        self, source: str, target: str, settings: Mapping[str, str], source_settings: Mapping[str, str]
    ) -> FlowConfig:
        """Make a flow.

        Raises:
            BadRequest: it cannot be what is asked for.
            Conflict: there is one of this name.
            Unavailable: a cluster does not answer.
        """
        try:
            flow = self.config.reader.created(source, target, settings, source_settings)
        except ConfigurationError as error:
            raise BadRequest(str(error)) from None
        if any(name == flow.name for name, _, _ in self.flows()):
            raise Conflict(f"There is a flow {flow.name} already")
        if target not in self.targets:
            known = ", ".join(self.targets)
            raise BadRequest(f"target: these workers mirror to {known}, not to {target}")
        await _answering(self.targets[target].create(flow))
        return flow

    async def delete(self, name: str) -> None:
        """Delete a created flow; what it has copied stays.

        Raises:
            NotFound: there is none of this name.
            Conflict: it is one of the configuration.
            Unavailable: the target does not answer.
        """
        target, flow = self.find(name)
        if isinstance(flow, FlowWork) and flow.flow.origin == "configuration":
            raise Conflict(f"{name} stands in the workers' configuration; remove it there, or pause it")
        await _answering(target.delete(name))

    async def pause(self, name: str, *, paused: bool) -> None:
        """Pause a flow, or have it go on; errors as with `delete`."""
        target, flow = self.usable(name)
        before = flow.steering
        if not paused:
            flow.copy.retry()
        await _answering(
            target.steer(
                name,
                Steering(
                    paused=paused,
                    has_throttle=before.has_throttle,
                    throttle_bytes_per_s=before.throttle_bytes_per_s,
                ),
            )
        )

    async def throttle(self, name: str, bytes_per_s: int | None) -> None:
        """Limit what all workers copy of a flow together; errors as with `delete`."""
        target, flow = self.usable(name)
        steering = Steering(paused=flow.steering.paused, has_throttle=True, throttle_bytes_per_s=bytes_per_s)
        await _answering(target.steer(name, steering))


async def _answering(work: Awaitable[None]) -> None:
    """Do something at a cluster.

    Raises:
        BadRequest: it would make no sense between these clusters.
        Unavailable: the cluster does not answer, or does not accept us.
    """
    try:
        await work
    except FlowRefused as error:
        raise BadRequest(str(error)) from None
    except OttlaError as error:
        raise Unavailable(str(error)) from None
