"""`ottla doctor` as tests call it: what it finds, whether that is exactly what is expected, and its remedies."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.documents.named_commands import refusal
from tests.support.clusters.etcd_process import etcd_program
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import NotInTime, eventually

WITHIN_S = 60.0
Told = tuple[str, str, str]
"""A finding's rule, where it is, and its harm."""


class Doctor:
    """Looks at one cluster.

    Args:
        environment: variables that say where the cluster is.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        path = os.pathsep.join((str(Path(etcd_program("etcdctl")).parent), os.environ.get("PATH", os.defpath)))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
        self._environment = {**inherited, "PATH": path, "ETCDCTL_API": "3", **environment}

    @classmethod
    def of(cls, cluster: OttlaCluster) -> "Doctor":
        """The doctor of a local cluster."""
        report = json.loads((cluster.directory / "cluster.json").read_text())
        urls = {"OTTLA_CONNECT_URL": report["connect"], "OTTLA_MIRROR_URL": report["mirror"]}
        own = {"OTTLA_BOOTSTRAP": cluster.bootstrap, "OTTLA_DIR": str(cluster.directory)}
        return cls(own | {name: ",".join(each) for name, each in urls.items() if each})

    def ottla(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command at the cluster."""
        return subprocess.run(
            [ottla_command(), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=120,
            env=self._environment,
        )  # fmt: skip

    def done(self, *arguments: str, stdin: str = "") -> str:
        """Runs a command that succeeds, and returns what it prints."""
        result = self.ottla(*arguments, stdin=stdin)
        assert result.returncode == 0, f"ottla {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def found(self, *arguments: str) -> list[dict[str, Any]]:
        """What the doctor finds; the exit code agrees, and `ottla` takes the commands that it names."""
        result = self.ottla("doctor", "--json", *arguments)
        findings: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
        harms = {each["harm"] for each in findings}
        silent = json.loads(result.stdout)["not_seen"]
        expected = 3 if harms == {"advice"} and not silent else 1 if harms - {"advice"} else 2 if silent else 0
        assert result.returncode == expected, result.stderr
        ours = [each["remedy"] for each in findings if each["remedy"].startswith("ottla ")]
        assert [refusal(each.split()[1:]) for each in ours] == [None] * len(ours)
        return findings

    def expect(self, *told: Told, besides: str = "", arguments: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Waits until exactly this is found, in this order, perhaps with findings of another rule."""

        def exactly() -> tuple[list[dict[str, Any]]] | None:
            seen = [each for each in self.found(*arguments) if each["rule"] != besides]
            return (seen,) if [(each["rule"], each["where"], each["harm"]) for each in seen] == [*told] else None

        try:
            return eventually(exactly, f"the doctor tells {told} only", within_s=WITHIN_S)[0]
        except NotInTime as error:
            raise NotInTime(f"{error}; it tells {self.found(*arguments)}") from None

    def expect_only(self, rule: str, where: str, harm: str, *, besides: str = "") -> dict[str, Any]:
        """Waits until exactly this is found, and returns it."""
        return self.expect((rule, where, harm), besides=besides)[0]

    def expect_health(self, *arguments: str) -> None:
        """Waits until nothing is found."""
        self.expect(arguments=arguments)

    def apply(self, finding: dict[str, Any], *more: str) -> None:
        """Types the command that a finding names, in a shell as a reader does."""
        command = " ".join((finding["remedy"], *more)).replace("ottla ", f"{ottla_command()} ", 1)
        result = subprocess.run(
            command, shell=True, capture_output=True, text=True, check=False, timeout=120, env=self._environment
        )  # fmt: skip
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"

    def mend(self, finding: dict[str, Any], *more: str) -> None:
        """Types the command that a finding names, after which all is well."""
        self.apply(finding, *more)
        self.expect_health()


@contextmanager
def standing_still(cluster: OttlaCluster, role: str, number: int) -> Iterator[None]:
    """A process of a local cluster hangs."""
    pid = next(each.pid for each in cluster.services if (each.role, each.id) == (role, number))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
