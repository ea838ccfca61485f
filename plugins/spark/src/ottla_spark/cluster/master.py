"""What `spark.master` names, and whether somebody answers there."""

import os
import re
import socket
from collections.abc import Iterator

from ottla_sdk import InvalidConfig, Problem, RetriableError

MASTER_KEY = "spark.master"
LOCAL = re.compile(r"local(?:\[(?P<cores>\*|[1-9]\d*)(?:\s*,\s*\d+)?\])?")
OF_CLUSTERS = re.compile(r"spark://\S+|yarn|k8s://\S+|local-cluster\[[\d\s,]+\]")
STANDALONE = "spark://"
PORT_DEFAULT = 7077
CONNECT_TIMEOUT_S = 5.0


class MasterUnreachable(RetriableError):
    """Nobody answers at `spark.master`."""


def is_local(master: str) -> bool:
    """Return whether everything runs on this machine, in the driver."""
    return LOCAL.fullmatch(master) is not None


def local_cores(master: str) -> int:
    """Return how many tasks a local master runs at a time."""
    found = LOCAL.fullmatch(master)
    cores = found["cores"] if found is not None else None
    return (os.cpu_count() or 1) if cores == "*" else int(cores or 1)


def check_master(master: str) -> str:
    """Check that one of a standalone cluster's masters takes connections; Spark itself would try for a minute.

    Returns:
        The address by which this machine reaches it, where executors reach a driver; empty for other clusters.

    Raises:
        InvalidConfig: `master` is nothing that Spark knows.
        MasterUnreachable: none of the masters takes connections.
    """
    if not is_local(master) and OF_CLUSTERS.fullmatch(master) is None:
        forms = "local[N], spark://HOST:PORT, yarn and k8s://HOST:PORT"
        raise InvalidConfig([Problem(MASTER_KEY, f"{master!r} is none of {forms}")])
    if not master.startswith(STANDALONE):
        return ""
    failures = []
    for host, port in standalone_addresses(master):
        try:
            with socket.create_connection((host, port), CONNECT_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise MasterUnreachable(f"no Spark master answers at {master} ({'; '.join(failures)})")


def standalone_addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each master in ``spark://HOST:PORT,HOST:PORT``."""
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        yield (host.strip("[]"), int(port)) if host and port.isdecimal() else (address, PORT_DEFAULT)
