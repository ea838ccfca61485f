"""Everything that must be true after a trial of mirrors, judged from what was noted, read and stored. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla_mirror.offsets.offset_map import OffsetMap
from tests.faults.checker import FinalContents, Writers, problems_of, vanished_records
from tests.faults.cluster_files import Partitions
from tests.faults.history import Place, ProducerHistory, ReaderHistory
from tests.faults.mirrors.copy_checker import CopiedRecord, Copy, Log, Verdict, judge, source_logs
from tests.faults.mirrors.ledger_checker import Ledgers, ledger_problems
from tests.faults.mirrors.link_checker import content_problems
from tests.faults.mirrors.mirror_load import STRANGER
from tests.faults.mirrors.operated_topics import GROWING, REBORN, copy_problems
from tests.faults.topics import COPIED_TOPICS, KEEPS, LINKED_TOPICS, PARTITIONS, SOURCE, TARGET, Keeps, copy_name
from tests.faults.transactions.transaction_history import Outcome


class Noted(NamedTuple):
    """What was noted during a trial, and what there was at its end.

    Attributes:
        produced: what the source's producers were told.
        readers: what the reader of each cluster saw.
        source: the source's records of the load.
        target: the target's copies and linked topics.
        operated: the target's partitions of topics that operators write.
        written: how many records of these were acknowledged, by life.
        maps: the workers' maps of offsets.
        ledgers: what was written in transactions.
    """

    produced: ProducerHistory
    readers: Mapping[str, ReaderHistory]
    source: FinalContents
    target: FinalContents
    operated: FinalContents
    written: Mapping[tuple[str, int], list[int]]
    maps: Mapping[tuple[str, int], OffsetMap]
    ledgers: Ledgers


def judge_everything(noted: Noted, partitions: Mapping[str, Partitions], writers: Mapping[str, Writers]) -> Verdict:
    """Compares both sides.

    Args:
        noted: see `Noted`.
        partitions: where each partition of each cluster begins and ends.
        writers: who wrote each record of each cluster.
    """
    verdict = Verdict()
    readers = [noted.readers[SOURCE]]
    of_source = problems_of(noted.produced, readers, noted.source, writers[SOURCE])
    verdict.problems += [f"at the source: {problem}" for problem in of_source]
    seen_at_target = noted.readers[TARGET]
    vanished = [*seen_at_target.problems, *vanished_records(seen_at_target, noted.target)]
    verdict.problems += [f"at the target: {problem}" for problem in vanished]
    logs = source_logs(noted.produced, readers, noted.source)
    for topic in COPIED_TOPICS:
        for index in range(PARTITIONS):
            _judge_copy(verdict, noted, partitions, writers[TARGET], logs, (topic.name, index))
    for topic in LINKED_TOPICS:
        for index in range(PARTITIONS):
            _judge_link(verdict, noted, partitions, logs[topic.name, index], (topic.name, index))
    _judge_operated(verdict, noted)
    _judge_ledgers(verdict, noted.ledgers)
    return verdict


def _judge_copy(
    verdict: Verdict,
    noted: Noted,
    partitions: Mapping[str, Partitions],
    writers: Writers,
    logs: Mapping[tuple[str, int], Log],
    partition: tuple[str, int],
) -> None:
    topic, index = partition
    remote = copy_name(topic)
    offsets = noted.maps.get(partition)
    if offsets is None:
        verdict.problems.append(f"{topic}-{index} has no map of offsets")
        return
    target = [
        CopiedRecord(offset, content, writers.get(Place(remote, index, offset)))
        for offset, content in noted.target[remote, index]
        if not content.key.startswith(f"p{STRANGER}-")
    ]
    at_source, at_target = partitions[SOURCE][partition], partitions[TARGET][remote, index]
    judged = judge(
        Copy(
            name=f"{remote}-{index}",
            keeps=KEEPS[topic],
            source=logs[partition],
            left=[offset for offset, _ in noted.source[partition]],
            source_start=at_source.log_start,
            source_end=at_source.high_watermark,
            target=target,
            target_start=at_target.log_start,
            map=offsets,
        )
    )
    verdict.problems += judged.problems
    verdict.counts += judged.counts
    verdict.counts["records of others"] += len(noted.target[remote, index]) - len(target)


def _judge_link(
    verdict: Verdict, noted: Noted, partitions: Mapping[str, Partitions], log: Log, partition: tuple[str, int]
) -> None:
    topic, index = partition
    at_target = partitions[TARGET][partition]
    source, target = noted.source[partition], noted.target[partition]
    if KEEPS[topic] is Keeps.LAST_VALUES:
        needed = list({content.key: offset for offset, content in source}.values())
    else:
        needed = [offset for offset, _ in source if offset >= at_target.log_start]
    verdict.problems += content_problems(f"{topic}-{index}", log, target, needed=needed)
    verdict.counts["linked"] += len(target)


def _judge_operated(verdict: Verdict, noted: Noted) -> None:
    """Looks at the topics that operators have deleted, created anew and extended."""
    for (topic, index), written in sorted(noted.written.items()):
        is_copied = topic in (REBORN.copied, GROWING.copied)
        name = copy_name(topic) if is_copied else topic
        found = [content for _, content in noted.operated[name, index]]
        verdict.problems += copy_problems(f"{name}-{index}", written, found, is_copied=is_copied)
        verdict.counts["records of operators"] += len(found)
    verdict.counts["lives"] += len(noted.written[REBORN.copied, 0])


def _judge_ledgers(verdict: Verdict, ledgers: Ledgers) -> None:
    """Looks at what was written in transactions."""
    verdict.problems += ledger_problems(ledgers)
    for outcome in Outcome:
        verdict.counts[f"{outcome} transactions"] += ledgers.written.count_of(outcome)
    verdict.counts["committed records in transactions"] += sum(map(len, ledgers.target_committed.values()))
