"""Tells within seconds why brokers do not take records, for which librdkafka keeps trying in silence.

A broker whose disk is full, a partition without a leader, and too few in-sync replicas are errors that pass, so the
client tries again until a record's time is over. Meanwhile the person is told once, each time it begins.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.output import note
from ottla_operations.errors import OperationError
from ottla_operations.quantities import human_bytes

STALLED_AFTER_S = 3.0
PAUSE_MAX_S = 1.0
"""Who has not looked for so long has waited for something else meanwhile, such as the next line."""
ANSWER_WITHIN_S = 3.0
FULL_BYTES = 4 << 20
"""With less room than this on its disk, a broker may have none for a batch."""


class StalledPublishing:
    """Watches over records that wait for brokers.

    Args:
        explain: returns why nothing is acknowledged; asked in a thread.
        now_s: a clock in seconds.

    Attributes:
        reason: the last explanation; empty if there was none.
    """

    def __init__(self, explain: Callable[[], str], now_s: Callable[[], float] = time.monotonic) -> None:
        self.reason = ""
        self._explain = explain
        self._now_s = now_s
        self._outcomes = -1
        self._since_s = self._looked_s = now_s()
        self._is_told = False

    def look(self, outcomes: int) -> None:
        """Look whether records wait for long; to be called again and again while they do.

        Args:
            outcomes: of how many records it is known by now what became of them; some others are under way.
        """
        now_s = self._now_s()
        has_waited = now_s - self._looked_s < PAUSE_MAX_S
        self._looked_s = now_s
        if outcomes != self._outcomes or not has_waited:
            self._outcomes, self._since_s, self._is_told = outcomes, now_s, False
        elif not self._is_told and now_s - self._since_s >= STALLED_AFTER_S:
            self._is_told = True
            threading.Thread(target=self._tell, daemon=True).start()

    def _tell(self) -> None:
        self.reason = self._explain()
        note(
            f"ottla: nothing has been acknowledged for {STALLED_AFTER_S:.0f} s: {self.reason}; "
            "going on trying, Ctrl-C gives up"
        )


def why_nothing_is_acknowledged(topic: str, bootstrap: str, config: Mapping[str, Any]) -> str:
    """Ask the cluster why it does not take records of a topic, and return that in words."""
    from ottla_operations.cluster.cluster_admin import ClusterAdmin  # noqa: PLC0415 - hardly ever needed

    try:
        with ClusterAdmin(bootstrap, config, answer_timeout_s=ANSWER_WITHIN_S) as admin:
            view = admin.view()
            partitions = [each for each in view.partitions.values() if each.name.topic == topic]
            leaders = {each.leader for each in partitions}
            problems = [f"partition {each.name} has no leader" for each in partitions if each.leader is None]
            for broker, directories in admin.disk_space(
                each for each in view.brokers.values() if each.id in leaders
            ).items():
                problems += _full_disks(broker, directories)
            problems += [
                f"partition {each.name} has {len(each.in_sync)} of {len(each.replicas)} replicas in sync"
                for each in partitions
                if each.leader is not None and each.is_under_replicated
            ]
    except OperationError as error:
        return str(error)
    return problems[0] if problems else "brokers are there, but do not answer"


def _full_disks(broker: int, directories: Sequence[tuple[int, int]]) -> list[str]:
    return [
        f"the disk of broker {broker} is full ({human_bytes(free)} free of {human_bytes(size)})"
        for free, size in directories
        if 0 <= free < FULL_BYTES
    ]
