"""The network of a trial: every process has an address of its own and, where that is possible, a link that can fail.

As root on Linux each process lives in a network namespace with a veth pair into a bridge, so links between chosen
processes are cut with iptables (the receiver drops what the sender sends, so one direction at a time) and slowed down
with a token bucket. Otherwise every process has a loopback address, and links cannot fail. The host's own
rules may drop what bridges forward, as those of a container engine do, so what stays on a trial's bridge is accepted.

All names bear the process id of the run. Namespaces and bridge go when the network is closed; what a killed run has
left is removed by the next one.
"""

import ipaddress
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tests.faults.fault import Link

PREFIX = "ottla"
INTERFACE = "eth0"
SUBNETS = ipaddress.IPv4Network("10.192.0.0/11")
"""Out of the middle of a private range; each run takes one /24 that no interface uses."""
BURST = "16kb"
LATENCY = "300ms"
COMMAND_DEADLINE_S = 30.0


class Network(Protocol):
    """Addresses, and what can happen to the links between them."""

    can_fail: bool
    """Whether links can be cut and slowed down."""

    def address_of(self, name: str) -> str:
        """The IPv4 address of a process."""

    def inside(self, name: str, command: Sequence[str]) -> list[str]:
        """The command that runs another one where a process lives; the process id stays the same."""

    def cut(self, links: Collection[Link]) -> None:
        """Has links lose everything; cutting twice takes mending twice."""

    def mend(self, links: Collection[Link]) -> None:
        """Undoes one `cut` of these links."""

    def slow_down(self, name: str, rate_kbit: int) -> None:
        """Limits what a process can send and receive per second."""

    def speed_up(self, name: str) -> None:
        """Undoes `slow_down`."""

    def close(self) -> None:
        """Takes everything away; every process in it must have ended."""


class LoopbackNetwork:
    """Addresses in 127.0.0.0/8; nothing can happen to them."""

    can_fail = False

    def __init__(self, names: Sequence[str]) -> None:
        pid = os.getpid()
        net = f"127.{64 + (pid >> 8) % 128}.{pid % 256}"
        self._addresses = {name: f"{net}.{number}" for number, name in enumerate(names, start=1)}

    def address_of(self, name: str) -> str:
        return self._addresses[name]

    def inside(self, name: str, command: Sequence[str]) -> list[str]:
        assert name in self._addresses
        return list(command)

    def cut(self, links: Collection[Link]) -> None:
        raise NotImplementedError("links of the loopback network cannot be cut")

    def mend(self, links: Collection[Link]) -> None:
        raise NotImplementedError("links of the loopback network cannot be cut")

    def slow_down(self, name: str, rate_kbit: int) -> None:
        raise NotImplementedError("links of the loopback network cannot be slowed down")

    def speed_up(self, name: str) -> None:
        raise NotImplementedError("links of the loopback network cannot be slowed down")

    def close(self) -> None:
        """Nothing to take away."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class NamespaceNetwork:
    """One network namespace per process, all linked to one bridge."""

    can_fail = True

    def __init__(self, names: Sequence[str]) -> None:
        remove_leftovers()
        self._run = f"{PREFIX}{os.getpid()}"
        self._numbers = {name: number for number, name in enumerate(names, start=1)}
        subnet = _free_subnet()
        self._addresses = {name: str(subnet[number]) for name, number in self._numbers.items()}
        try:
            self._build(subnet)
        except BaseException:
            self.close()
            raise

    def address_of(self, name: str) -> str:
        return self._addresses[name]

    def inside(self, name: str, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._namespace(name), *command]

    def cut(self, links: Collection[Link]) -> None:
        self._change_rules("-A", links)

    def mend(self, links: Collection[Link]) -> None:
        self._change_rules("-D", links)

    def slow_down(self, name: str, rate_kbit: int) -> None:
        bucket = ["root", "tbf", "rate", f"{rate_kbit}kbit", "burst", BURST, "latency", LATENCY]
        _run(["tc", "-n", self._namespace(name), "qdisc", "add", "dev", INTERFACE, *bucket])
        _run(["tc", "qdisc", "add", "dev", self._outer(name), *bucket])

    def speed_up(self, name: str) -> None:
        _run(["tc", "-n", self._namespace(name), "qdisc", "del", "dev", INTERFACE, "root"])
        _run(["tc", "qdisc", "del", "dev", self._outer(name), "root"])

    def close(self) -> None:
        _remove(self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _namespace(self, name: str) -> str:
        return f"{self._run}-{self._numbers[name]}"

    def _outer(self, name: str) -> str:
        """The bridge's end of a process's link; the kernel allows 15 characters."""
        return f"{self._run}v{self._numbers[name]}"

    def _build(self, subnet: ipaddress.IPv4Network) -> None:
        bridge, gateway, bits = self._run, subnet[-2], subnet.prefixlen
        lines = [
            f"link add {bridge} type bridge",
            f"addr add {gateway}/{bits} dev {bridge}",
            f"link set {bridge} up",
        ]
        for name in self._numbers:
            lines += [
                f"netns add {self._namespace(name)}",
                f"link add {self._outer(name)} type veth peer name {INTERFACE} netns {self._namespace(name)}",
                f"link set {self._outer(name)} master {bridge} up",
            ]
        _run(["ip", "-batch", "-"], "\n".join(lines))
        _run(["iptables", "-w", "-I", *_on_the_bridge(bridge)])
        for name, address in self._addresses.items():
            inner = f"link set lo up\naddr add {address}/{bits} dev {INTERFACE}\nlink set {INTERFACE} up"
            _run(["ip", "-n", self._namespace(name), "-batch", "-"], inner)

    def _change_rules(self, action: str, links: Collection[Link]) -> None:
        senders: defaultdict[str, list[str]] = defaultdict(list)
        for sender, receiver in sorted(links):
            senders[receiver].append(self._addresses[sender])
        for receiver, addresses in senders.items():
            rules = [f"{action} INPUT -s {address} -j DROP" for address in addresses]
            restore = self.inside(receiver, ["iptables-restore", "--noflush"])
            _run(restore, "\n".join(["*filter", *rules, "COMMIT", ""]))


def unavailable_reason() -> str | None:
    """Why no namespaces can be used here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [program for program in ("ip", "tc", "iptables", "iptables-restore") if shutil.which(program) is None]
    if missing:
        return f"network namespaces need the programs {', '.join(missing)}"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"the kernel gives no network namespace: {probe.stderr.strip()}" if probe.returncode else None


def open_network(names: Sequence[str]) -> Network:
    """The best network that this machine offers."""
    return LoopbackNetwork(names) if unavailable_reason() else NamespaceNetwork(names)


def remove_leftovers() -> None:
    """Removes what runs have left whose process is gone."""
    found = re.findall(rf"{PREFIX}(\d+)-\d+", _output(["ip", "netns", "list"]))
    for pid in set(found):
        if not Path(f"/proc/{pid}").exists():
            _remove(f"{PREFIX}{pid}")


def _on_the_bridge(bridge: str) -> list[str]:
    """Rule by which the host accepts what a bridge carries from one of its ends to another."""
    return ["FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT"]


def _remove(run: str) -> None:
    subprocess.run(["iptables", "-w", "-D", *_on_the_bridge(run)], capture_output=True, check=False)
    for namespace in re.findall(rf"^{run}-\d+", _output(["ip", "netns", "list"]), re.MULTILINE):
        _run(["ip", "netns", "del", namespace])
    # A namespace's own devices go with it, in the kernel's own time; the bridge's ends can be deleted at once.
    for device in re.findall(rf"^\d+: ({run}(?:v\d+)?)[@:]", _output(["ip", "-o", "link"]), re.MULTILINE):
        subprocess.run(["ip", "link", "del", device], capture_output=True, check=False)


def _free_subnet() -> ipaddress.IPv4Network:
    used = re.findall(r"inet (\S+)", _output(["ip", "-o", "-4", "addr"]))
    taken = [ipaddress.IPv4Interface(address).network for address in used]
    candidates = list(SUBNETS.subnets(new_prefix=24))
    start = os.getpid() % len(candidates)
    for candidate in candidates[start:] + candidates[:start]:
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    raise OSError(f"no /24 of {SUBNETS} is free")


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=COMMAND_DEADLINE_S)
    return done.stdout


def _run(command: Sequence[str], script: str = "") -> None:
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, check=False, timeout=COMMAND_DEADLINE_S
    )
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)} failed: {done.stderr.strip()}")
