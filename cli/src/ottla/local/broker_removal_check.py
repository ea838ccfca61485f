"""What a local cluster loses that is started with fewer brokers than before.

The controllers' state in etcd knows: a partition whose in-sync replicas are all on brokers that are left out has no
leader then. Its records are in those brokers' directories and nowhere else, or the other replicas lack some of them.

As a program, `python -m ottla.local.broker_removal_check SETTINGS BROKER,…`, it prints the names of these partitions
as JSON; given are a broker's settings and the ids of the brokers that are left out. The supervisor runs it before the
first service starts, as a process of its own, since it has no use for gRPC in its memory.
"""

import asyncio
import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from ottla.local import tied_exec
from ottla_core.cluster.state.model import PartitionState
from ottla_operations.errors import OperationError

ASKED_WITHIN_S = 30.0
NAMED_MAX = 5


class Undecided(Exception):
    """It could not be found out; the message says why."""


def lost_partitions(partitions: Iterable[PartitionState], leaving: Collection[int]) -> list[PartitionState]:
    """Return the partitions that no broker which stays may lead.

    Args:
        partitions: as the controllers decided them.
        leaving: ids of the brokers that are left out.
    """
    return [
        each for each in partitions if (leaders := {*each.isr, *each.eligible_leaders}) and leaders <= set(leaving)
    ]


def describe_loss(lost: Sequence[str], leaving: Sequence[int]) -> str:
    """Return what is lost, and what to do, in words.

    Args:
        lost: names of partitions, at least one.
        leaving: ids of the brokers that are left out.
    """
    is_one = len(lost) == 1
    named = ", ".join(lost[:NAMED_MAX]) + (f" and {len(lost) - NAMED_MAX:,} more" if len(lost) > NAMED_MAX else "")
    brokers = f"broker{'s' if len(leaving) > 1 else ''} {', '.join(map(str, leaving))}"
    topics = sorted({name.rpartition("-")[0] for name in lost})
    return (
        f"{'1 partition' if is_one else f'{len(lost):,} partitions'} could be neither read nor written without "
        f"{brokers}, as nobody else has all {'its' if is_one else 'their'} records: {named}. Start as many "
        "brokers as before with `ottla up`, copy these partitions to the brokers that stay with `ottla topic alter "
        f"{' '.join(topics[:NAMED_MAX])} --replication-factor {len(leaving) + 1}`, stop the cluster, and start with "
        "fewer; or do without these partitions with --force"
    )


async def ask(settings: Path, leaving: Sequence[int]) -> list[str]:
    """Return the names of the partitions that would be lost.

    Args:
        settings: a broker's settings, which say where etcd is.
        leaving: ids of the brokers that are left out.

    Raises:
        Undecided: etcd does not tell.
    """
    program = [
        *(sys.executable, "-I", "-S", tied_exec.__file__, str(os.getpid())),
        *(sys.executable, "-m", "ottla.local.broker_removal_check", str(settings), ",".join(map(str, leaving))),
    ]
    asking = await asyncio.create_subprocess_exec(
        *program,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the supervisor, whose end is that of this process
    )
    try:
        answer, problem = await asyncio.wait_for(asking.communicate(), ASKED_WITHIN_S)
    except TimeoutError:
        raise Undecided(f"etcd did not tell within {ASKED_WITHIN_S:.0f} s") from None
    finally:
        if asking.returncode is None:
            asking.kill()
            await asking.wait()
    if asking.returncode:
        lines = problem.decode(errors="replace").strip().splitlines()
        raise Undecided(lines[-1] if lines else f"exit code {asking.returncode}")
    names: list[str] = json.loads(answer)
    return names


class BrokerRemovalCheck:
    """Refuses a start that would lose partitions.

    Attributes:
        brokers: with how many brokers the cluster is to be remembered: as before until the check has passed, or the
            next start, which is like the last one, would lose them unasked.

    Args:
        before: with how many brokers it ran the last time.
        wanted: with how many it is to run.
        settings: a broker's settings.
        force: whether it is to run anyway.
    """

    def __init__(self, *, before: int, wanted: int, settings: Path, force: bool) -> None:
        self.brokers = max(before, wanted)
        self._wanted = wanted
        self._leaving = list(range(wanted + 1, before + 1))
        self._settings = settings
        self._force = force

    async def __call__(self) -> None:
        """Look at what is lost.

        Raises:
            OperationError: something is, or it cannot be found out, and it is not to run anyway.
        """
        if self._leaving and not self._force:
            try:
                lost = await ask(self._settings, self._leaving)
            except Undecided as problem:
                raise OperationError(
                    f"cannot see what would be lost with fewer brokers: {problem}; --force starts without looking"
                ) from None
            if lost:
                raise OperationError(describe_loss(lost, self._leaving))
        self.brokers = self._wanted


async def _lost_names(properties: Mapping[str, str], leaving: Collection[int]) -> list[str]:
    from ottla_core.cluster.etcd.client import EtcdClient  # noqa: PLC0415
    from ottla_core.cluster.state.codec import decode_partition, decode_topic  # noqa: PLC0415 - for the program only
    from ottla_core.cluster.state.keys import KeySpace, PartitionKey, TopicKey  # noqa: PLC0415
    from ottla_core.config import EtcdSettings  # noqa: PLC0415

    known = EtcdSettings.known_keys()
    settings = EtcdSettings.model_validate({key: value for key, value in properties.items() if key in known})
    keys = KeySpace(settings.cluster_name)
    etcd = EtcdClient.from_settings(settings)
    try:
        entries = (await etcd.list_prefix(keys.prefix)).entries
    finally:
        await etcd.close()
    topics: dict[UUID, str] = {}
    partitions = []
    for entry in entries:
        key = keys.parse(entry.key)
        if isinstance(key, TopicKey):
            topics[decode_topic(key.name, entry.value).id] = key.name
        elif isinstance(key, PartitionKey):
            partitions.append(decode_partition(key, entry.value, entry.mod_revision))
    # A partition without its topic's record belongs to a topic that is being created or deleted.
    visible = [each for each in partitions if each.topic_id in topics]
    return sorted(f"{topics[each.topic_id]}-{each.index}" for each in lost_partitions(visible, leaving))


def _read_properties(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


def main() -> int:
    """Print the partitions that would be lost."""
    leaving = [int(each) for each in sys.argv[2].split(",")]
    print(json.dumps(asyncio.run(_lost_names(_read_properties(Path(sys.argv[1])), leaving))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
