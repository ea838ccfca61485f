"""A Spark standalone cluster on loopback, from the pip package: a master, and workers that a test may add and kill.

The workers' Python is a bare virtual environment: it has none of the packages that Ottla needs, so a job works only
with what is shipped to it. Each process leads a process group of its own, with executors and their Python workers,
which is ended as a whole; and none outlives the test run.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_port

START_DEADLINE_S = 120.0
DAEMON_MEMORY = "128m"
EXECUTOR_CLASS = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
DRIVERS_VARIABLES = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "SPARK_CONF_DIR")


class SparkWorker:
    """One worker, and the executors that it started.

    Attributes:
        process: the worker itself.
        directory: what its executors unpack and log.
    """

    def __init__(self, name: str, command: list[str], directory: Path, env: dict[str, str]):
        self.directory = directory
        self.process = ChildProcess(name, command, log=directory.parent / f"{name}.log", env=env)

    def await_registered(self) -> None:
        eventually(self._is_registered, f"{self.process.name} has registered", within_s=START_DEADLINE_S)

    def _is_registered(self) -> bool:
        self.process.check_running()
        return "Successfully registered with master" in self.process.log.read_text(errors="replace")

    def executors(self) -> list[int]:
        """The process ids of its executors."""
        return [pid for pid in _children(self.process.pid) if EXECUTOR_CLASS in _command_line(pid)]

    def kill_executor(self) -> int:
        """SIGKILLs one of its executors, waiting for one if there is none yet; returns its process id."""
        pid = eventually(self.executors, f"{self.process.name} has an executor", within_s=START_DEADLINE_S)[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill(self) -> None:
        """SIGKILLs it with all that it started, as if its machine had failed."""
        if self.process.is_running():
            group = self.process.pid
            self.process.kill()
            _kill_group(group)


class SparkCluster:
    """A master and workers; `stop` ends them all.

    Attributes:
        master: what drivers have as `spark.master`.
        workers: those that were added, killed ones too.
        python: the workers' Python, which has nothing installed.
    """

    def __init__(self, directory: Path, *, workers: int = 2, cores: int = 1, memory: str = "768m"):
        self._directory = directory
        self._count = workers
        self._worker_options = ["--cores", str(cores), "--memory", memory]
        self._port = free_port()
        self.master = f"spark://{LOOPBACK}:{self._port}"
        self.workers: list[SparkWorker] = []
        self.python = directory / "python" / "bin" / "python"
        self._env = _environment(directory, self.python.parent)
        self._master = ChildProcess(
            "spark-master",
            _command("master.Master", "--port", str(self._port)),
            log=directory / "spark-master.log",
            env=self._env,
        )

    def __enter__(self) -> Self:
        try:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.python.parents[1]], check=True)
            self._master.start()
            eventually(self._is_alive, "the master is alive", within_s=START_DEADLINE_S)
            self.add_workers(self._count)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def add_worker(self) -> SparkWorker:
        (worker,) = self.add_workers(1)
        return worker

    def add_workers(self, count: int) -> list[SparkWorker]:
        """Starts workers side by side, and waits until all of them have registered."""
        added = [self._start_worker() for _ in range(count)]
        for worker in added:
            worker.await_registered()
        return added

    def _start_worker(self) -> SparkWorker:
        name = f"spark-worker-{len(self.workers) + 1}"
        directory = self._directory / name
        command = _command("worker.Worker", *self._worker_options, "--work-dir", str(directory), self.master)
        worker = SparkWorker(name, command, directory, self._env)
        self.workers.append(worker)
        worker.process.start()
        return worker

    def stop(self) -> None:
        """Ends everything; nothing is kept that a clean stop would save."""
        for worker in self.workers:
            worker.kill()
        self._master.kill()

    def _is_alive(self) -> bool:
        self._master.check_running()
        return "New state: ALIVE" in self._master.log.read_text(errors="replace")


def _command(deployed: str, *options: str) -> list[str]:
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    common = ["--host", LOOPBACK, "--webui-port", "0"]
    return ["setsid", str(spark_class), f"org.apache.spark.deploy.{deployed}", *common, *options]


def _environment(directory: Path, python_folder: Path) -> dict[str, str]:
    own = str(Path(sys.executable).parent)
    folders = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each != own]
    return {
        **{name: "" for name in DRIVERS_VARIABLES if name in os.environ},
        "PATH": os.pathsep.join([str(python_folder), *folders]),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it would listen on a fixed port
    }


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, (task / "children").read_text().split())
    return found


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
