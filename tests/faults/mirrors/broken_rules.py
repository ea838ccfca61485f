"""The rules of mirrors and links, broken one at a time; `tests/faults/broken_rules.py` starts services with them."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.replaced_rule import replace_rule


def takeovers_by_the_stored_position() -> None:
    """A mirror worker that begins with a partition goes on at the stored position, whatever the target has."""
    from dataclasses import replace  # noqa: PLC0415 - only for the worker

    from ottla_mirror.copy.partition_start import PartitionStarts  # noqa: PLC0415
    from ottla_mirror.copy.takeover import TargetScan  # noqa: PLC0415

    begin_sessions = PartitionStarts._begin_sessions

    async def begin(self: PartitionStarts, wanted: Any, stored: Any, ends: Any, failures: Any) -> None:
        unasked = {
            work: replace(
                beginning,
                new_session_at=stored[work.partition].next_source_offset,
                replaces=stored[work.partition].session.name,
            )
            for work, beginning in wanted.items()
            if work.partition in stored
        }
        await begin_sessions(self, {**wanted, **unasked}, stored, ends, failures)

    def see_nothing(_self: TargetScan, _header: Any, _batch: memoryview) -> None:
        """Pass a batch over."""

    replace_rule(PartitionStarts, "_begin_sessions", begin)
    replace_rule(TargetScan, "_take_batch", see_nothing)


def failed_batches_are_passed_over() -> None:
    """A mirror worker goes on behind a batch that the target did not take for the time being."""
    from ottla_mirror.copy.needs import Need, Needed  # noqa: PLC0415 - only for the worker
    from ottla_mirror.copy.partition_copy import PartitionCopy  # noqa: PLC0415 - only for the worker

    def pass_over(self: PartitionCopy) -> None:
        assert self.first is not None
        self.needed = Needed(Need.REFUSED, self.first.base_offset, "")
        PartitionCopy.pass_over(self)

    replace_rule(PartitionCopy, "repeat", pass_over)


def maps_without_strangers() -> None:
    """A mirror worker takes it that nobody else writes to its copies, and counts their offsets itself."""
    from ottla_mirror.copy.partition_copy import PartitionCopy  # noqa: PLC0415 - only for the worker

    acknowledged = PartitionCopy.on_acknowledged

    def count(self: PartitionCopy, target_offsets: Sequence[int]) -> None:
        for target_offset in target_offsets:
            is_next = target_offset >= 0 and not self.has_failed
            acknowledged(self, [self.map.target_end if is_next else target_offset])

    replace_rule(PartitionCopy, "on_acknowledged", count)


def offsets_by_samples() -> None:
    """A mirror worker translates offsets of groups to those of every tenth record."""
    from ottla_mirror.offsets.offset_map import OffsetMap, Translation  # noqa: PLC0415 - only for the worker

    translate = OffsetMap.translate

    def sampled(self: OffsetMap, source_offset: int) -> Translation:
        exact = translate(self, source_offset)
        return exact._replace(target_offset=exact.target_offset - exact.target_offset % 10)

    replace_rule(OffsetMap, "translate", sampled)


def links_go_on_at_the_sources_end() -> None:
    """A leader of a linked partition that has fallen behind goes on where the source's log ends."""
    from dataclasses import replace  # noqa: PLC0415 - only for the broker

    from ottla_broker.links.linked_partition import LinkedPartition  # noqa: PLC0415
    from ottla_broker.replica.follower_replica import FetchPosition  # noqa: PLC0415

    fetch_position = LinkedPartition.fetch_position

    def skip(self: LinkedPartition) -> FetchPosition:
        real, source_end_offset = fetch_position(self), self.status("").source_end_offset
        if 0 < real.offset < source_end_offset:
            return replace(real, offset=source_end_offset, last_fetched_epoch=-1)
        return real

    replace_rule(LinkedPartition, "fetch_position", skip)


def aborted_records_are_copied() -> None:
    """A mirror worker copies the records of aborted transactions as well."""
    from ottla_mirror.copy.deliverable_batches import DeliverableBatches  # noqa: PLC0415 - only for the worker

    def includes(_self: DeliverableBatches, header: Any, _batch: memoryview) -> bool:
        return bool(header.record_count and not header.is_control)

    replace_rule(DeliverableBatches, "includes", includes)


def all_markers_commit() -> None:
    """A log takes every marker of a transaction for one that commits it."""
    from dataclasses import replace  # noqa: PLC0415 - only for the broker

    from ottla_broker.log.producers.producer_state import ProducerStates  # noqa: PLC0415

    ended = ProducerStates._ended

    def committed(self: ProducerStates, entry: Any, marker: Any, marker_offset: int) -> Any:
        return ended(self, entry, replace(marker, is_commit=True), marker_offset)

    replace_rule(ProducerStates, "_ended", committed)


MIRROR_RULES: dict[str, Callable[[], None]] = {
    "takeovers-by-the-stored-position": takeovers_by_the_stored_position,
    "failed-batches-are-passed-over": failed_batches_are_passed_over,
    "maps-without-strangers": maps_without_strangers,
    "offsets-by-samples": offsets_by_samples,
    "links-go-on-at-the-sources-end": links_go_on_at_the_sources_end,
    "aborted-records-are-copied": aborted_records_are_copied,
    "all-markers-commit": all_markers_commit,
}
