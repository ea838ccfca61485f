"""Services with one rule deliberately broken, to show that a trial notices: run in place of the real program.

`python -m tests.faults.broken_rules RULE MODULE ARGUMENT…` imports the service, replaces the rule in it, and runs its
own `main()`; everything else is the real program.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def high_watermark_ignores_the_isr() -> None:
    """The leader takes a record for replicated as soon as it has it itself."""
    from ottla_broker.replication.leader_replica import LeaderReplica  # noqa: PLC0415 - only for the broker

    def high_watermark(_self: LeaderReplica, _current: int, log_end_offset: int, **_rest: Any) -> int:
        return log_end_offset

    LeaderReplica.high_watermark = high_watermark  # type: ignore[method-assign, assignment]
    LeaderReplica.is_alone = property(lambda _self: True)  # type: ignore[method-assign, assignment]


def no_truncation() -> None:
    """A follower goes on from its log's end after an election, without asking where the logs part."""
    from ottla_broker.partition import NO_EPOCH_GIVEN, Partition  # noqa: PLC0415 - only for the broker
    from ottla_broker.replication.follower_replica import FetchPosition  # noqa: PLC0415 - only for the broker

    def fetch_position(self: Partition) -> FetchPosition:
        log = self.log
        return FetchPosition(log.log_end_offset, NO_EPOCH_GIVEN, self.state.leader_epoch, log.log_start_offset)

    def keep(_self: Partition, *_: Any, **_rest: Any) -> None:
        """Cut nothing."""

    Partition.fetch_position = fetch_position  # type: ignore[method-assign]
    Partition.truncate_to = keep  # type: ignore[method-assign, assignment]


def deposed_controller_not_fenced() -> None:
    """A controller writes without looking at its lease, at who leads, and at what it overwrites."""
    from ottla_controller.state_writer import StateWriter, Write  # noqa: PLC0415 - only for the controller
    from ottla_core.cluster import etcd_operations as op  # noqa: PLC0415
    from ottla_core.cluster.etcd import TransactionResult  # noqa: PLC0415

    async def attempt(self: StateWriter, chunk: Sequence[Write]) -> TransactionResult:
        operations = [op.delete(w.key) if w.value is None else op.put(w.key, w.value) for w in chunk]
        return await self._etcd.transaction([], operations, [])

    StateWriter._attempt = attempt  # type: ignore[method-assign]


RULES: dict[str, Callable[[], None]] = {
    "high-watermark-ignores-the-isr": high_watermark_ignores_the_isr,
    "no-truncation": no_truncation,
    "deposed-controller-not-fenced": deposed_controller_not_fenced,
}


def program(rule: str, module: str) -> tuple[str, ...]:
    """What Python is to run, after `-m`, instead of a service's module."""
    assert rule in RULES
    return ("tests.faults.broken_rules", rule, module)


def main() -> int:
    rule, module, *arguments = sys.argv[1:]
    RULES[rule]()
    sys.argv = [module, *arguments]
    return int(import_module(module).main())


if __name__ == "__main__":
    sys.exit(main())
