"""The directory of one local cluster: its lock, its state file, and where its data and logs lie.

cluster.lock            held (flock) by the supervisor for as long as it lives
cluster.json            the last `ClusterReport`, replaced atomically
prometheus-targets.json where Prometheus finds the metrics of its processes, likewise
settings                what `--set` said, a line each; for its owner only, as there may be secrets
config/broker-1.properties   what a process was started with; for its owner only as well
logs/broker-1.log, logs/supervisor.log
etcd/, broker-1/        data; an etcd of several members has etcd-1/, etcd-2/, …
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.local.prometheus_targets import prometheus_targets
from ottla_operations.local_clusters.cluster_report import ClusterReport, UnreadableReport

DIRECTORY_VARIABLE = "OTTLA_DIR"
TAIL_BYTES = 16_384


class DirectoryInUse(Exception):
    """Another supervisor holds the directory's lock."""


class UnusableDirectory(Exception):
    """The directory cannot be made, read or written, or its state file is not ours; the message says which."""


def default_directory() -> Path:
    """Return the directory of the cluster that is meant when none is named."""
    if named := os.environ.get(DIRECTORY_VARIABLE):
        return Path(named)
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data_home) / "ottla" / "local"


class ClusterDirectory:
    """Paths and the state file below one directory."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.logs = self.path / "logs"
        self.config = self.path / "config"
        self.etcd_data = self.path / "etcd"
        self.state_file = self.path / "cluster.json"
        self.targets_file = self.path / "prometheus-targets.json"
        self.settings_file = self.path / "settings"
        self.lock_file = self.path / "cluster.lock"
        self.supervisor_log = self.logs / "supervisor.log"

    def log_of(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.logs / f"{name}.log"

    def config_of(self, name: str) -> Path:
        """Return the properties file of a service process."""
        return self.config / f"{name}.properties"

    def data_of(self, name: str) -> Path:
        """Return the data directory of a process."""
        return self.path / name

    def etcd_data_of(self, member: int, members: int) -> Path:
        """Return the data directory of one of the embedded etcd's members."""
        return self.etcd_data if members == 1 else self.data_of(f"etcd-{member}")

    def create(self) -> None:
        """Make the directory and its folders.

        Raises:
            UnusableDirectory: they cannot be made.
        """
        try:
            for folder in (self.path, self.logs, self.config):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnusableDirectory(f"cannot use the directory {self.path}: {error.strerror}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory for this process.

        Raises:
            DirectoryInUse: another process holds it.
            UnusableDirectory: the lock file cannot be opened.
        """
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UnusableDirectory(f"cannot open {self.lock_file}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DirectoryInUse from None
            yield
        finally:
            os.close(descriptor)

    def read_report(self) -> ClusterReport | None:
        """Return the last report, or None if no cluster was ever started here.

        Raises:
            UnusableDirectory: there is a state file, but not one of ours.
        """
        try:
            return ClusterReport.from_json(self.state_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnreadableReport) as error:
            raise UnusableDirectory(f"cannot read the state file {self.state_file}: {error}") from None

    def read_settings(self) -> list[str]:
        """Return what `--set` said the last time, one text each.

        Raises:
            UnusableDirectory: the file cannot be read.
        """
        try:
            # Not splitlines, which takes other characters for ends of lines, too.
            return [text for text in self.settings_file.read_text(encoding="utf-8").split("\n") if text]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise UnusableDirectory(f"cannot read {self.settings_file}: {error}") from None

    def write_settings(self, texts: Sequence[str]) -> None:
        """Replace what is remembered of `--set`.

        Raises:
            UnusableDirectory: the file cannot be written.
        """
        self._write_private(self.settings_file, "".join(f"{text}\n" for text in texts))

    def write_config(self, file: Path, text: str) -> None:
        """Replace the properties file of a service process, where what `--set` said stands, too.

        Raises:
            UnusableDirectory: the file cannot be written.
        """
        self._write_private(file, text)

    def _write_private(self, file: Path, text: str) -> None:
        """Replace a file that is for its owner only, as there may be secrets in it."""
        draft = file.with_suffix(".new")
        try:
            draft.unlink(missing_ok=True)  # one that was left would keep its mode
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            draft.replace(file)
        except OSError as error:
            raise UnusableDirectory(f"cannot write {file}: {error.strerror}") from None

    def write_report(self, report: ClusterReport) -> None:
        """Replace the state file and what is said in it for Prometheus; a reader sees an old one or a new one."""
        documents = {self.state_file: report.to_document(), self.targets_file: prometheus_targets(report)}
        for file, document in documents.items():
            draft = file.with_suffix(".json.new")
            draft.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
            draft.replace(file)


def last_lines(file: Path, count: int) -> list[str]:
    """Return the last non-empty lines of a log, reading no more than its last few kilobytes."""
    try:
        with file.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]
