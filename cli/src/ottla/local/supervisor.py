"""Keeping a local cluster's processes: start in stages, watch, restart what crashes, stop in reverse order.

Until everything is ready, one process's end is the end of the start: nothing stays running. Afterwards a process
that ends is started again, a bounded number of times (see `restart_policy`). The cluster as a whole fails when the
majority of etcd, or the last process of another role, has been given up; it goes on without Connect. Whatever way
`run` is left, no child of it is alive.

A full disk does not end a cluster that runs: a report that cannot be written and a process whose start the operating
system refuses are said once and tried again until they succeed.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from ottla.local.plan import ProcessSpec
from ottla.local.process import ManagedProcess, ProcessFailed, describe_exit
from ottla.local.restart_policy import RESTARTS_MAX, RestartPolicy
from ottla.local.service_launcher import ServiceLauncher
from ottla_operations.local_clusters.cluster_report import ClusterPhase, ProcessReport

KILL_DEADLINE_S = 5.0
REFUSED_RETRY_S = 2.0
"""Pause before what the operating system refused (a full disk, no memory) is tried again."""

ETCD_ROLE = "etcd"

MAJORITY_ROLES = frozenset({ETCD_ROLE})
"""Roles whose processes are of no use unless more than half of them run."""

OPTIONAL_ROLES = frozenset({"connect", "mirror", "console"})
"""Roles without which the cluster still is one."""

log = logging.getLogger("ottla.local")


class StopRequested(Exception):
    """The user asked for the end while the cluster was still starting."""


class StopSignal:
    """The wish to stop: the first one is orderly, the second one at once."""

    def __init__(self) -> None:
        self.orderly = asyncio.Event()
        self.at_once = asyncio.Event()

    def request(self) -> None:
        """Ask for the end, and the second time for an immediate one."""
        if self.orderly.is_set():
            self.at_once.set()
        self.orderly.set()


Publish = Callable[[ClusterPhase, tuple[ProcessReport, ...]], None]


class Supervisor:
    """The processes of one cluster.

    Args:
        stages: what to start together; each stage waits for the one before.
        publish: called with the phase and all processes whenever something changed; an OSError of its is no harm.
        launcher: forks the services; without one, they are executed. It is closed at the end.
        before_services: awaited when etcd is ready and no service has been started; what it raises ends the start.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[ProcessSpec]],
        publish: Publish,
        launcher: ServiceLauncher | None = None,
        before_services: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._before_services = before_services
        self._stages = [[ManagedProcess(spec, launcher) for spec in stage] for stage in stages]
        self._launcher = launcher
        self._publish = publish
        self._phase: ClusterPhase = "starting"
        self._is_unpublished = False

    @property
    def _processes(self) -> list[ManagedProcess]:
        return [process for stage in self._stages for process in stage]

    async def run(self, stop: StopSignal) -> None:
        """Start the cluster, keep it until `stop`, and stop it.

        Raises:
            ProcessFailed: a process kept it from starting, or it cannot go on without one.
            StopRequested: `stop` came before everything was ready.
        """
        outcome: ClusterPhase = "failed"
        try:
            await self._open_launcher()
            for stage in self._stages:
                if stage[0].spec.role != ETCD_ROLE:
                    await self._check_before_services(stop)
                await self._start_stage(stage, stop)
            self._enter("running")
            await self._keep(stop)
            outcome = "stopped"
        except StopRequested:
            outcome = "stopped"
            raise
        finally:
            await self._stop_all(stop)
            if self._launcher is not None:
                await self._launcher.close()
            self._enter(outcome)

    async def _open_launcher(self) -> None:
        """Have it do its imports while the first stage starts."""
        if self._launcher is None:
            return
        try:
            await self._launcher.open()
        except OSError as error:
            raise ProcessFailed(f"the launcher of services cannot be started: {error}") from None

    async def _check_before_services(self, stop: StopSignal) -> None:
        check, self._before_services = self._before_services, None
        if check is None:
            return

        async def checked() -> None:
            await check()

        tasks = {asyncio.create_task(checked()), asyncio.create_task(_raise_at_stop(stop))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await _cancel(tasks)

    async def _start_stage(self, stage: Sequence[ManagedProcess], stop: StopSignal) -> None:
        """Start a stage's processes side by side; an end of any process, or a wish to stop, ends the attempt."""
        # Not only those that still run: one may have ended since, unnoticed.
        started_before = [process for process in self._processes if process.state == "ready"]
        starting = {asyncio.create_task(self._start_first(process)) for process in stage}
        interruptions = {asyncio.create_task(_fail_at_end(process)) for process in started_before}
        interruptions.add(asyncio.create_task(_raise_at_stop(stop)))
        pending = starting | interruptions
        try:
            while not starting <= {task for task in starting if task.done()}:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            await _cancel(starting | interruptions)

    async def _start_first(self, process: ManagedProcess) -> None:
        try:
            await self._start(process)
        except OSError as error:
            raise ProcessFailed(f"{process.spec.name} cannot be started: {error}") from None

    async def _start_again(self, process: ManagedProcess) -> None:
        """Start a process, patiently while the operating system refuses.

        Raises:
            ProcessFailed: it was started, and ended first or was not ready in time.
        """
        said = False
        while True:
            try:
                return await self._start(process)
            except OSError as error:
                if not said:
                    log.warning("%s cannot be started; trying again until it can: %s", process.spec.name, error)
                    said = True
                process.state = "restarting"
                self._changed()
            await asyncio.sleep(REFUSED_RETRY_S)

    async def _start(self, process: ManagedProcess) -> None:
        began = time.monotonic()
        log.info("starting %s", process.spec.name)
        await process.start()
        log.info(
            "%s is ready at %s after %.1f s", process.spec.name, process.report().address, time.monotonic() - began
        )
        self._changed()

    async def _keep(self, stop: StopSignal) -> None:
        keepers = {asyncio.create_task(self._keep_running(process)) for process in self._processes}
        stopping = asyncio.create_task(stop.orderly.wait())
        publishing = asyncio.create_task(self._keep_published())
        pending: set[asyncio.Task[None] | asyncio.Task[bool]] = {*keepers, stopping, publishing}
        try:
            while not stopping.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            await _cancel({*keepers, stopping, publishing})

    async def _keep_running(self, process: ManagedProcess) -> None:
        """Restart a process whenever it ends; returns when it is given up and the cluster can do without."""
        policy = RestartPolicy()
        while True:
            code = await process.wait()
            delay_s = policy.delay_after_crash_s(time.monotonic())
            if delay_s is None:
                self._give_up(process)
                return
            process.state = "restarting"
            self._changed()
            log.warning(
                "%s ended (%s); restart %d of at most %d in %.2f s; its log is %s",
                process.spec.name, describe_exit(code), policy.crashes_in_window, RESTARTS_MAX, delay_s,
                process.spec.log,
            )  # fmt: skip
            await asyncio.sleep(delay_s)
            process.restarts += 1
            try:
                await self._start_again(process)
            except ProcessFailed as failure:
                log.warning("%s", failure)
                process.kill()  # if it lives, it never became ready; the next round sees its end

    def _give_up(self, process: ManagedProcess) -> None:
        """Stop restarting a process.

        Raises:
            ProcessFailed: the cluster is none without it.
        """
        process.state = "failed"
        self._changed()
        message = process.describe_end(f"ended more than {RESTARTS_MAX} times in a row and is given up")
        of_role = [each.state for each in self._processes if each.spec.role == process.spec.role]
        needed = len(of_role) // 2 + 1 if process.spec.role in MAJORITY_ROLES else 1
        needed = 0 if process.spec.role in OPTIONAL_ROLES else needed
        if len(of_role) - of_role.count("failed") < needed:
            raise ProcessFailed(message)
        log.warning("%s", message)

    async def _stop_all(self, stop: StopSignal) -> None:
        self._phase = "stopping" if self._phase == "running" else self._phase
        self._changed()
        for stage in reversed(self._stages):
            for is_last in (False, True):
                stopping = [each for each in stage if each.spec.is_needed_to_stop is is_last]
                await asyncio.gather(*(self._stop(process, stop) for process in stopping))

    async def _stop(self, process: ManagedProcess, stop: StopSignal) -> None:
        if not process.is_running():
            process.state = "failed" if process.state == "failed" else "stopped"
            return
        process.state = "stopping"
        process.terminate()
        ended = asyncio.create_task(process.wait())
        at_once = asyncio.create_task(stop.at_once.wait())
        await asyncio.wait({ended, at_once}, timeout=process.spec.stop_s, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            reason = "as asked" if at_once.done() else f"it did not stop within {process.spec.stop_s:.0f} s"
            log.warning("killing %s: %s; its log is %s", process.spec.name, reason, process.spec.log)
            process.kill()
            await asyncio.wait({ended}, timeout=KILL_DEADLINE_S)
        await _cancel({ended, at_once})
        process.state = "stopped"
        log.info("%s has stopped", process.spec.name)

    def _enter(self, phase: ClusterPhase) -> None:
        self._phase = phase
        self._changed()

    def _changed(self) -> None:
        try:
            self._publish(self._phase, tuple(process.report() for process in self._processes))
        except OSError as error:
            if not self._is_unpublished:
                log.warning("the cluster's state cannot be written down; trying again until it can: %s", error)
            self._is_unpublished = True
        else:
            self._is_unpublished = False

    async def _keep_published(self) -> None:
        """Publish again what could not be published, while the cluster runs."""
        while True:
            await asyncio.sleep(REFUSED_RETRY_S)
            if self._is_unpublished:
                self._changed()


async def _fail_at_end(process: ManagedProcess) -> None:
    await process.wait()
    raise ProcessFailed(process.describe_end("ended while the rest of the cluster was starting"))


async def _raise_at_stop(stop: StopSignal) -> None:
    await stop.orderly.wait()
    raise StopRequested


async def _cancel(tasks: Iterable[asyncio.Task[None] | asyncio.Task[bool] | asyncio.Task[int]]) -> None:
    """Cancel tasks and wait for their end, whatever it is; their results are of no more interest."""
    unfinished = [task for task in tasks if not task.done()]
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def log_to(file: Path, *, also_to: logging.Handler | None) -> None:
    """Send the supervisor's own messages to its log file, and to a second place."""
    to_file = _LossyFileHandler(file)
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    log.handlers = [to_file] if also_to is None else [to_file, also_to]
    log.setLevel(logging.INFO)
    log.propagate = False


class _LossyFileHandler(logging.FileHandler):
    """A log file that loses lines on a full disk, without filling standard error with tracebacks."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - named by the standard library
        """Lose the line; what else goes wrong with a record is shown as usual."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)
