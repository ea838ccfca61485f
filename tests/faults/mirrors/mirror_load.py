"""The load of a trial of mirrors: writers, readers and groups of the source, and some who are at the target.

Somebody else writes to the copies as well, so that offsets of the target are not those of the source.
"""

import json
from pathlib import Path

from tests.faults.access.mechanisms import WORKER
from tests.faults.access.rights import Rights, may_read, may_write
from tests.faults.access.secured_clients import Abilities
from tests.faults.cluster import Cluster
from tests.faults.history import ProducerHistory, ReaderHistory
from tests.faults.load import GROUPS, LoadPrograms, rights_of_groups, stop_programs
from tests.faults.mirrors.operated_topics import GROWING, REBORN
from tests.faults.network import Network
from tests.faults.topics import (
    COPIED_TOPICS,
    GROUP_LOAD_TOPIC,
    LINKED_TOPICS,
    PARTITIONS,
    SOURCE,
    TARGET,
    Keeps,
    copy_name,
)
from tests.support.child_process import ChildProcess
from tests.support.documented_rights import documented_rights
from tests.support.groups.group_load import GROUP_PREFIX

PRODUCERS = 2
RATE = 80
STRANGER = PRODUCERS
"""The number of the producer that writes to a copy at the target."""
STRANGERS_NAME = "stranger"
STRANGER_RATE = 3
SOURCE_TOPICS = (*COPIED_TOPICS, *LINKED_TOPICS)
TARGET_TOPICS = [*(copy_name(topic.name) for topic in COPIED_TOPICS), *(topic.name for topic in LINKED_TOPICS)]
READERS = (SOURCE, TARGET)
MIRROR = "mirror"
WORKERS = 2
LINK = "link"
GROUPS_OF_LOAD = {"analytics-": [GROUP_PREFIX]}
"""What the page calls the groups whose offsets go along."""


def worker_names() -> tuple[str, ...]:
    """The mirror workers."""
    return tuple(f"{MIRROR}-{number}" for number in range(1, WORKERS + 1))


ABILITIES: Abilities = dict.fromkeys([*worker_names(), LINK], WORKER)


def source_rights() -> Rights:
    """What each program of the load may do at the source, and mirror workers and the link there."""
    names = [topic.name for topic in SOURCE_TOPICS]
    copied = [*(topic.name for topic in COPIED_TOPICS), GROUP_LOAD_TOPIC, REBORN.copied, GROWING.copied]
    linked = [*(topic.name for topic in LINKED_TOPICS), REBORN.linked, GROWING.linked]
    return {
        **{
            name: documented_rights("mirror-at-source", name, {"flights": copied, **GROUPS_OF_LOAD})
            for name in worker_names()
        },
        LINK: documented_rights("link", LINK, {"flights": linked, **GROUPS_OF_LOAD}),
        **{name: may_write(name, names) for name in (f"producer-{number}" for number in range(PRODUCERS))},
        SOURCE: may_read(SOURCE, names),
        GROUPS: rights_of_groups(),
    }


def target_rights() -> Rights:
    """What each program of the load may do at the target, and mirror workers there."""
    return {
        **{name: documented_rights("mirror-at-target", name, GROUPS_OF_LOAD) for name in worker_names()},
        STRANGERS_NAME: may_write(STRANGERS_NAME, [copy_name(COPIED_TOPICS[0].name)]),
        TARGET: may_read(TARGET, TARGET_TOPICS),
    }


class MirrorLoad(LoadPrograms):
    """All programs of a trial of mirrors."""

    def __init__(self, directory: Path, network: Network, *, source: Cluster, target: Cluster, seed: int) -> None:
        super().__init__(directory, network, source.clients)
        names = [topic.name for topic in SOURCE_TOPICS]
        growing = [topic.name for topic in SOURCE_TOPICS if topic.keeps is Keeps.LAST_VALUES]
        forgetful = [topic.name for topic in SOURCE_TOPICS if topic.keeps is Keeps.NEWEST]
        self._producers = {
            f"producer-{number}": self._program(
                "numbered_producer",
                f"producer-{number}",
                [
                    *("--bootstrap", source.bootstrap, "--rate", str(RATE)),
                    *("--topics", *names, "--growing", *growing),
                    *("--number", str(number), "--seed", str(seed * PRODUCERS + number)),
                ],
            )
            for number in range(PRODUCERS)
        }
        self._stranger = self._program(
            "numbered_producer",
            STRANGERS_NAME,
            [
                *("--bootstrap", target.bootstrap, "--rate", str(STRANGER_RATE)),
                *("--topics", copy_name(COPIED_TOPICS[0].name)),
                *("--number", str(STRANGER), "--seed", str(seed)),
            ],
            clients=target.clients,
        )
        common = ["--partitions", str(PARTITIONS), "--forgetful", *forgetful, *map(copy_name, forgetful)]
        self._readers = {
            name: self._program(
                "independent_reader",
                name,
                ["--bootstrap", cluster.bootstrap, "--topics", *topics, *common, "--name", f"reader of {name}"],
                clients=cluster.clients,
            )
            for name, cluster, topics in ((SOURCE, source, names), (TARGET, target, TARGET_TOPICS))
        }
        self._groups = self._program(
            "group_members",
            GROUPS,
            ["--bootstrap", source.bootstrap, "--topic", GROUP_LOAD_TOPIC, "--partitions", str(PARTITIONS)],
        )

    @property
    def _programs(self) -> list[ChildProcess]:
        return [*self._producers.values(), self._stranger, *self._readers.values(), self._groups]

    def produced(self) -> ProducerHistory:
        """What the source's producers have noted so far."""
        history = ProducerHistory()
        for name in self._producers:
            with self._notes_of(name).open() as notes:
                history.add(notes)
        return history

    def seen(self, site: str) -> ReaderHistory:
        """What the reader of a cluster has noted so far."""
        return self._read(site)

    def stop_producers(self) -> None:
        """Stops them; returns when every record has been answered or given up."""
        stop_programs([*self._producers.values(), self._stranger])

    def stop_readers(self) -> None:
        """Stops them."""
        stop_programs(list(self._readers.values()))

    def stop_groups(self) -> list[str]:
        """Stops the source's groups; what was wrong with them."""
        stop_programs([self._groups])
        answer = json.loads(self._notes_of(self._groups.name).read_text())
        return [f"groups: {problem}" for problem in answer["problems"]]
