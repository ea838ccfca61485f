"""Translates the source's groups: into checkpoints, and into offsets of the target's groups. A duty of the leader.

Each round asks for all offsets anew, and writes what has changed. The maps come from the store of copies, so it does
not matter who copies which partition. A group that cannot be looked at keeps no other one waiting.

A checkpoint may be of a topic that was deleted since, at either side, and a later one of its name has other records
at its offsets. So a group is sent only where its last translation has found it, which goes by the topics as they are.

A checkpoint is deleted when its group, or the group's offset, is missing at the source in `LOOKS_BEFORE_DELETION`
rounds: a program that asks for offsets shall not be told those of a group that has been gone for long.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from ottla_core.client.errors import Refused
from ottla_core.client.group.cluster_groups import ClusterGroups, GroupError, LogBounds
from ottla_core.client.group.offset_requests import ABSENT, CommittedOffset, ListedGroup, consumes
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.records import Record
from ottla_mirror.groups.checkpoints import Checkpoint, CheckpointKey, Checkpoints, checkpoint_entry
from ottla_mirror.groups.group_reports import GroupReport, GroupState, PartitionReport, SyncReport
from ottla_mirror.groups.target_offsets import has_to_be_stored
from ottla_mirror.groups.translation import Translated
from ottla_mirror.groups.translator import Translator
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.topic_follower import TopicFollower

LOOKS_BEFORE_DELETION: Final = 2
SETTLE_S: Final = 3.0
"""More than the time between two writes of the maps."""
SETTLE_PAUSE_S: Final = 0.2

log = structlog.get_logger("groups")


class NotLeading(Exception):
    """This worker does not lead any more."""


class UnknownGroup(GroupError):
    """The source has no such group, or one without offsets in topics that are copied."""


class _Found(NamedTuple):
    """A group's offsets in topics that are copied, and what they are at the target as far as that is known."""

    committed: Mapping[TopicPartition, CommittedOffset]
    translated: Mapping[TopicPartition, Translated]


class GroupSync:
    """The groups of one flow.

    Args:
        source: groups of the source.
        target: groups of the target.
        translator: knows the maps.
        checkpoints: MirrorMaker's topic for the source's checkpoints, at the target.
        topics: returns the topics that are copied now, and what they are called at the target.
        includes: whether a group is translated.
        stores_offsets: whether translated offsets become those of the target's groups.
        leads: whether this worker leads, and nobody else can.
        now_ms: the clock.

    Attributes:
        reports: the result for each group in the last rounds.
    """

    def __init__(
        self,
        *,
        source: ClusterGroups,
        target: ClusterGroups,
        translator: Translator,
        checkpoints: InternalTopic,
        topics: Callable[[], Mapping[str, str]],
        includes: Callable[[str], bool],
        stores_offsets: bool,
        leads: Callable[[], bool],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.reports: dict[str, GroupReport] = {}
        self._source = source
        self._target = target
        self._translator = translator
        self._topic = checkpoints
        self._topics = topics
        self._includes = includes
        self._stores_offsets = stores_offsets
        self._leads = leads
        self._now_ms = now_ms
        self._checkpoints = Checkpoints()
        self._follower = TopicFollower(checkpoints, on_records=self._take, on_restart=self._checkpoints.clear)
        self._round = asyncio.Lock()
        self._groups: frozenset[str] = frozenset()
        self._translated: dict[str, frozenset[CheckpointKey]] = {}
        self._stored: dict[CheckpointKey, int] = {}
        self._missing: dict[CheckpointKey, int] = {}

    async def start(self) -> None:
        """Make the checkpoints topic if it is not there, and read what it has; look for groups.

        Raises:
            InternalTopicError: it cannot be made or read.
            GroupError, Unreachable, AuthenticationFailed, UnsupportedByBroker: see `refresh`.
        """
        await self._topic.ensure()
        await self._follower.catch_up()
        self._stored = {key: each.downstream_offset for key, each in self._checkpoints.found.items()}
        await self.refresh()

    async def refresh(self) -> None:
        """Look which groups the source has.

        Raises:
            GroupError: a broker does not say which groups it has.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        found = await self._source.list()
        self._groups = frozenset(group for group, each in found.items() if consumes(each) and self._includes(group))
        self.reports = {group: report for group, report in self.reports.items() if group in self._groups}

    async def emit_checkpoints(self) -> None:
        """Translate all groups, and write the checkpoints that have changed.

        Raises:
            NotLeading: this worker does not lead any more.
            InternalTopicError: the maps cannot be read, or the checkpoints not be written.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        async with self._round:
            # What a former leader has written late is seen, and put right.
            await self._follower.catch_up()
            topics = dict(self._topics())
            source_ids = await self._translator.source_ids(topics)
            offsets = await self._committed(self._groups, topics)
            found = await self._translate(offsets, topics, source_ids)
            await self._write_checkpoints(found, topics)
            self._translated = _keys_of(found, topics)
            await self._delete_stale(offsets, topics)

    async def store_offsets(self) -> None:
        """Have the target's groups without members go on where their checkpoints are.

        Raises:
            NotLeading: this worker does not lead any more.
            GroupError: a broker does not say which groups it has.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        if not self._stores_offsets:
            return
        async with self._round:
            listed = await self._target.list()
            for group, wanted in sorted(self._wanted().items()):
                if group not in self._groups:
                    continue
                try:
                    await self._store_group(group, wanted, await self._target_group(group, listed))
                except (GroupError, Refused) as error:
                    self._failed(group, str(error))

    async def sync_now(self, group: str) -> SyncReport:
        """Translate one group at once, and store its offsets at the target if it has no members there.

        They are stored whether or not the flow stores offsets of groups: somebody has asked for it. Where the group
        is ahead of the copy, the copy has `SETTLE_S` to come that far; then the answer says what is missing.

        Raises:
            UnknownGroup: the source has no such group, or it has no offsets in topics that are copied.
            GroupError, NotLeading, InternalTopicError, Refused, Unreachable, AuthenticationFailed,
            UnsupportedByBroker: it is not known what the group's offsets are, or whether they were stored.
        """
        async with self._round:
            await self._follower.catch_up()
            topics = dict(self._topics())
            source_ids = await self._translator.source_ids(topics)
            offsets = await self._source.offsets(group)
            committed = {each: at for each, at in offsets.items() if each.topic in topics}
            if not committed:
                raise UnknownGroup(f"The source has no group {group} with offsets in topics that are copied")
            found = await self._translate_settled(group, committed, topics, source_ids)
            await self._write_checkpoints({group: found}, topics)
            self._translated |= _keys_of({group: found}, topics)
            wanted = self._wanted().get(group)
            reason = "nothing of its topics has been copied yet"
            if wanted:
                state = await self._target_group(group, await self._target.list())
                reason = await self._store_group(group, wanted, state)
            present = await self._target.offsets(group)
            ends = await self._translator.source_ends(committed)
            reports = [self._partition_report(each, found, topics[each.topic], present, ends) for each in committed]
        return SyncReport(group=group, is_stored=not reason, reason=reason, partitions=tuple(reports))

    def _wanted(self) -> dict[str, dict[TopicPartition, Checkpoint]]:
        """Return what the offsets of groups at the target shall be, by the last translation of each."""
        own = set(self._topics().values())
        wanted: dict[str, dict[TopicPartition, Checkpoint]] = {}
        for key, checkpoint in self._checkpoints.found.items():
            is_valid = key in self._translated.get(key.group, ())
            if is_valid and key.topic in own and key not in self._missing:
                wanted.setdefault(key.group, {})[TopicPartition(key.topic, key.partition)] = checkpoint
        return wanted

    async def _translate_settled(
        self,
        group: str,
        committed: Mapping[TopicPartition, CommittedOffset],
        topics: Mapping[str, str],
        source_ids: Mapping[str, UUID],
    ) -> _Found:
        """Translate a group's offsets, again and again while the copy comes nearer to them."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + SETTLE_S
        while True:
            found = (await self._translate({group: committed}, topics, source_ids))[group]
            if not any(each.not_copied for each in found.translated.values()) or loop.time() >= deadline_s:
                return found
            await asyncio.sleep(SETTLE_PAUSE_S)

    async def _committed(
        self, groups: Collection[str], topics: Mapping[str, str]
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Return the offsets of groups in topics that are copied; groups that cannot be asked about are absent."""
        found = {}
        for group in sorted(groups):
            try:
                offsets = await self._source.offsets(group)
            except (GroupError, Refused) as error:
                self._failed(group, str(error))
                continue
            found[group] = {each: at for each, at in offsets.items() if each.topic in topics}
        return found

    async def _translate(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
        topics: Mapping[str, str],
        source_ids: Mapping[str, UUID],
    ) -> dict[str, _Found]:
        wanted = {each for committed in offsets.values() for each in committed}
        await self._translator.look(wanted, topics, source_ids)
        return {
            group: _Found(
                committed,
                {
                    each: found
                    for each, at in committed.items()
                    if (found := self._translator.translate(each, at.offset)) is not None
                },
            )
            for group, committed in offsets.items()
        }

    async def _write_checkpoints(self, found: Mapping[str, _Found], topics: Mapping[str, str]) -> None:
        changed: dict[CheckpointKey, Checkpoint] = {}
        for group, each in found.items():
            for partition, translated in each.translated.items():
                key = CheckpointKey(group, topics[partition.topic], partition.partition)
                committed = each.committed[partition]
                checkpoint = Checkpoint(committed.offset, translated.target_offset, committed.metadata)
                if self._checkpoints.found.get(key) != checkpoint:
                    changed[key] = checkpoint
        self._check_leads()
        await self._topic.append([checkpoint_entry(key, each) for key, each in changed.items()])
        self._checkpoints.found |= changed
        now_ms = self._now_ms()
        for group, each in found.items():
            if not each.committed:
                continue
            report = self.reports.setdefault(group, GroupReport(state=GroupState.CHECKPOINTED))
            report.translated_ms, report.partitions = now_ms, len(each.translated)
            if report.state is GroupState.FAILED:
                report.state, report.reason = GroupState.CHECKPOINTED, ""

    async def _delete_stale(
        self, offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]], topics: Mapping[str, str]
    ) -> None:
        """Delete checkpoints of groups and offsets that the source does not have any more."""
        own = set(topics.values())
        kept = {
            CheckpointKey(group, topics[each.topic], each.partition)
            for group, committed in offsets.items()
            for each in committed
        }
        unknown = self._groups - offsets.keys()  # could not be asked about
        missing = {
            key: self._missing.get(key, 0) + 1
            for key in self._checkpoints.found
            if key not in kept and key.topic in own and key.group not in unknown and self._includes(key.group)
        }
        stale = [key for key, looks in missing.items() if looks >= LOOKS_BEFORE_DELETION]
        self._missing = {key: looks for key, looks in missing.items() if looks < LOOKS_BEFORE_DELETION}
        if not stale:
            return
        self._check_leads()
        await self._topic.append([checkpoint_entry(key, None) for key in stale])
        for key in stale:
            del self._checkpoints.found[key]
            self._stored.pop(key, None)
        log.info("checkpoints deleted", groups=len({key.group for key in stale}), checkpoints=len(stale))

    async def _target_group(self, group: str, listed: Mapping[str, ListedGroup]) -> ListedGroup:
        found = listed.get(group, ABSENT)
        if found is not ABSENT and found.state == "":  # a cluster before Kafka 2.6 does not list states
            return await self._target.state(group)
        return found

    async def _store_group(self, group: str, wanted: Mapping[TopicPartition, Checkpoint], state: ListedGroup) -> str:
        """Store what has to be stored of a group; returns why it was not, or nothing."""
        report = self.reports.setdefault(group, GroupReport(state=GroupState.CHECKPOINTED))
        if state.has_members:
            report.state, report.reason = GroupState.ACTIVE_AT_TARGET, ""
            return f"group {group} has members at the target ({state.state})"
        present = await self._target.offsets(group)
        offsets = {}
        for each, checkpoint in wanted.items():
            there = present.get(each)
            last = self._stored.get(CheckpointKey(group, *each))
            if has_to_be_stored(checkpoint.downstream_offset, there.offset if there else None, last, state):
                offsets[each] = CommittedOffset(checkpoint.downstream_offset, checkpoint.metadata)
        if offsets:
            self._check_leads()
            result = await self._target.store(group, offsets)
            if result.is_in_use:
                report.state, report.reason = GroupState.ACTIVE_AT_TARGET, ""
                return f"group {group} has got members at the target"
            stored = {
                CheckpointKey(group, *each): at.offset for each, at in offsets.items() if each not in result.failures
            }
            self._stored |= stored
            if result.failures:
                each, why = next(iter(result.failures.items()))
                raise GroupError(f"{len(result.failures)} offsets of group {group} are not stored, {each}: {why}")
        report.state, report.reason = GroupState.SYNCED, ""
        return ""

    def _partition_report(
        self,
        partition: TopicPartition,
        found: _Found,
        remote_topic: str,
        present: Mapping[TopicPartition, CommittedOffset],
        ends: Mapping[TopicPartition, LogBounds],
    ) -> PartitionReport:
        translated = found.translated.get(partition)
        there = present.get(TopicPartition(remote_topic, partition.partition))
        position = self._translator.position(partition)
        end = ends.get(partition)
        return PartitionReport(
            topic=partition.topic,
            remote_topic=remote_topic,
            partition=partition.partition,
            source_offset=found.committed[partition].offset,
            target_offset=translated.target_offset if translated else None,
            not_copied=translated.not_copied if translated else found.committed[partition].offset,
            source_not_copied=None if end is None or position is None else max(0, end.end - position),
            is_stored=bool(translated and there and there.offset == translated.target_offset),
        )

    def _take(self, records: Sequence[Record]) -> None:
        for record in records:
            self._checkpoints.apply(record)

    def _failed(self, group: str, reason: str) -> None:
        report = self.reports.setdefault(group, GroupReport(state=GroupState.FAILED))
        report.state, report.reason = GroupState.FAILED, reason
        log.warning("group not translated", group=group, reason=reason)

    def _check_leads(self) -> None:
        if not self._leads():
            raise NotLeading


def _keys_of(found: Mapping[str, _Found], topics: Mapping[str, str]) -> dict[str, frozenset[CheckpointKey]]:
    """Return by group the checkpoints that say what was found just now."""
    return {
        group: frozenset(CheckpointKey(group, topics[at.topic], at.partition) for at in each.translated)
        for group, each in found.items()
    }
