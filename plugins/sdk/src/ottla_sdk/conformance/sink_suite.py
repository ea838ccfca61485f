"""Tests of sink connectors: what is committed is in the target, whatever is put again."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any, ClassVar

import pytest

from ottla_sdk.conformance.contexts import MemoryConnectorContext
from ottla_sdk.conformance.plugin_suite import BadSettings, Settings, make_suite, may_raise
from ottla_sdk.conformance.sink_misfortunes import SinkMisfortunes
from ottla_sdk.conformance.sink_run import SinkRun
from ottla_sdk.connectors import SinkConnector
from ottla_sdk.errors import DataError, RetriableError
from ottla_sdk.records import SinkRecord, TopicPartition

_TASKS_MAX = (1, 2, 3, 10)
_BATCH_RECORDS = 3

ReadBack = Callable[[Mapping[str, str]], Iterable[Any]]
"""Returns what is in the target now, each in any form; the settings say where."""

Interruption = Callable[[Mapping[str, str]], AbstractContextManager[None]]
"""Makes the target fail for the settings' connector, as long as the context is open."""


def _value(record: SinkRecord) -> Any:
    return record.value


class SinkConnectorSuite(SinkMisfortunes):
    """The suite; `sink_connector_suite` makes one for a class.

    Attributes:
        plugin: the connector's class.
        records: records that it writes.
        bad_record: one that it cannot write; None if there is none such.
        read_back: returns what is in the target.
        as_read_back: what `read_back` returns for a record.
        is_exact: whether records that come again leave nothing twice in the target.
        interruption: makes the target fail for a while; None if that cannot be done.
        secrets: what must stand in no error and in no line of the log.
        within_s: how long writing all records may take.
    """

    plugin: ClassVar[type[SinkConnector[Any]]]
    records: ClassVar[Sequence[SinkRecord]]
    bad_record: ClassVar[SinkRecord | None]
    read_back: ClassVar[ReadBack]
    as_read_back: ClassVar[Callable[[SinkRecord], Any]]
    is_exact: ClassVar[bool]
    interruption: ClassVar[Interruption | None]
    secrets: ClassVar[Sequence[str]]
    within_s: ClassVar[float]

    def test_the_division_into_tasks_is_within_bounds(self, settings: dict[str, str]) -> None:
        """At most `tasks.max` tasks, with texts as settings that the tasks' class takes."""
        connector = self.plugin()
        connector.configure(settings)
        connector.context = MemoryConnectorContext()
        connector.start()
        try:
            for tasks_max in _TASKS_MAX:
                configs = connector.task_configs(tasks_max)
                assert 0 < len(configs) <= tasks_max, f"{len(configs)} tasks of at most {tasks_max}"
                for config in configs:
                    assert all(isinstance(part, str) for pair in config.items() for part in pair), "not only texts"
                    connector.task_class().configure(config)
        finally:
            connector.stop()

    def test_the_configuration_is_found_right(self, settings: dict[str, str]) -> None:
        """`check` has nothing to say against the valid settings."""
        connector = self.plugin()
        connector.configure(settings)
        connector.context = MemoryConnectorContext()
        assert list(connector.check()) == []

    def test_stop_may_come_at_any_time(self, settings: dict[str, str]) -> None:
        """`stop` is called also before `start`, twice, and without any record."""
        task = self.plugin.task_class()
        task.configure(settings)
        task.stop()
        with self._run(settings) as run:
            run.crash()
            run.task.stop()
            run.connector.stop()

    def test_all_records_are_written(self, settings: dict[str, str]) -> None:
        """Once all offsets are committed, all records are in the target, and nothing else."""
        with self._run(settings) as run:
            self._write_all(run)
            assert self._present(settings) == self._expected(self.records)

    def test_what_is_committed_is_in_the_target(self, settings: dict[str, str]) -> None:
        """At every commit, not only at the last."""
        with self._run(settings) as run:
            while batch := run.next_records(_BATCH_RECORDS):
                run.put(batch)
                run.commit()
                committed = [each for each in self.records if each.offset < run.committed.get(each.origin, 0)]
                missing = self._expected(committed) - self._present(settings)
                assert not missing, f"committed, but not in the target: {next(iter(missing))!s:.200}"

    def test_puts_and_commits_without_records_are_harmless(self, settings: dict[str, str]) -> None:
        """They come when a topic is quiet."""
        with self._run(settings) as run:
            run.put([])
            run.commit()
            self._write_all(run)
            run.put([])
            run.commit()
            assert self._present(settings) == self._expected(self.records)

    def test_records_may_come_again_in_the_same_task(self, settings: dict[str, str]) -> None:
        """After a `RetriableError`, or when offsets could not be committed."""
        with self._run(settings) as run:
            while batch := run.next_records(_BATCH_RECORDS):
                run.put(batch)
                run.put(batch)
            run.commit_all(within_s=self.within_s)
            self._expect_present(settings)

    def test_records_come_again_after_a_crash(self, settings: dict[str, str]) -> None:
        """The next task begins at the committed offsets, or where it seeks; nothing is missing then."""
        committed: dict[TopicPartition, int] = {}
        for crash_after in (len(self.records) // 3, len(self.records) // 2):
            with self._run(settings, committed=committed) as run:
                while sum(run.put_offsets.values()) < crash_after and (batch := run.next_records(_BATCH_RECORDS)):
                    run.put(batch)
                run.commit()
                run.put(run.next_records(_BATCH_RECORDS))
                committed = dict(run.committed)
                run.crash()
        with self._run(settings, committed=committed) as run:
            self._write_all(run)
            self._expect_present(settings)

    def test_partitions_may_come_and_go(self, settings: dict[str, str]) -> None:
        """When a group is rebalanced, a task loses partitions and may get them back."""
        with self._run(settings) as run:
            run.put(run.next_records(_BATCH_RECORDS))
            one = self.records[0].origin
            run.close([one])
            run.put(run.next_records(_BATCH_RECORDS))
            run.open([one])
            self._write_all(run)
            self._expect_present(settings)

    def test_records_are_not_changed(self, settings: dict[str, str]) -> None:
        """The caller may still need them."""
        before = deepcopy(list(self.records))
        with self._run(settings) as run:
            self._write_all(run)
        assert list(self.records) == before

    def test_a_record_without_a_value_is_written_or_reported(self, settings: dict[str, str]) -> None:
        """It is a tombstone; a sink that has no use for it says so, and goes on with the others."""
        first = self.records[0]
        tombstone = first.replaced(value=None, value_schema=None)
        with SinkRun(self.plugin, settings, [tombstone, *self.records[1:]]) as run:
            self._write_all(run)
            others = [each for each in self.records[1:] if each.key != first.key]
            assert not self._expected(others) - self._present(settings)

    def test_a_bad_record_is_reported_and_the_others_are_written(self, settings: dict[str, str]) -> None:
        """`errors.tolerance` decides what follows; the others are not to blame."""
        assert self.bad_record is not None, "the test is left out without one"
        replaced = self.records[0]
        bad = self.bad_record.replaced(
            topic=replaced.topic,
            partition=replaced.partition,
            offset=replaced.offset,
            original_topic=replaced.original_topic,
            original_partition=replaced.original_partition,
        )
        with SinkRun(self.plugin, settings, [bad, *self.records[1:]]) as run:
            self._write_all(run)
            assert [record for record, _ in run.context.reported] == [bad]
            assert self._present(settings) == self._expected(self.records[1:])

    def test_a_bad_record_fails_the_task_where_errors_are_not_tolerated(self, settings: dict[str, str]) -> None:
        """The `DataError` passes through, and the bad record is not committed."""
        assert self.bad_record is not None, "the test is left out without one"
        with SinkRun(self.plugin, settings, [self.bad_record], tolerant=False) as run:
            with pytest.raises(DataError):
                self._write_all(run)
            run.crash()

    def test_records_are_written_once_the_target_is_back(self, settings: dict[str, str]) -> None:
        """While its target is away, a task says `RetriableError`, or keeps what it was given."""
        interruption = type(self).interruption
        assert interruption is not None, "the test is left out without one"
        with self._run(settings) as run:
            batch = run.next_records(_BATCH_RECORDS)
            with interruption(settings):
                for _ in range(2):
                    with may_raise(RetriableError):
                        run.task.put(batch)
            self._write_all(run)
            self._expect_present(settings)

    def _run(self, settings: Mapping[str, str], *, committed: Mapping[TopicPartition, int] | None = None) -> SinkRun:
        return SinkRun(self.plugin, settings, self.records, committed=committed)

    def _write_all(self, run: SinkRun) -> None:
        run.put_all(_BATCH_RECORDS, within_s=self.within_s)
        run.commit_all(within_s=self.within_s)

    def _expected(self, records: Iterable[SinkRecord]) -> Counter[Hashable]:
        as_read_back = type(self).as_read_back
        return Counter(repr(as_read_back(each)) for each in records)

    def _present(self, settings: Mapping[str, str]) -> Counter[Hashable]:
        read_back = type(self).read_back
        return Counter(repr(each) for each in read_back(settings))

    def _expect_present(self, settings: Mapping[str, str], records: Sequence[SinkRecord] | None = None) -> None:
        """Check that records, by default all, are there; once each, if the sink says so."""
        present = self._present(settings)
        expected = self._expected(self.records if records is None else records)
        if self.is_exact:
            assert present == expected
        assert not (lost := expected - present), (
            f"not in the target: {lost.total()}, such as {next(iter(lost))!s:.200}"
        )
        assert set(present) <= set(expected), "there is something in the target that was never put"


def sink_connector_suite(
    connector: type[SinkConnector[Any]],
    *,
    settings: Settings,
    records: Sequence[SinkRecord],
    read_back: ReadBack,
    as_read_back: Callable[[SinkRecord], Any] = _value,
    is_exact: bool = False,
    bad_record: SinkRecord | None = None,
    interruption: Interruption | None = None,
    secrets: Sequence[str] = (),
    bad_settings: BadSettings = (),
    is_installed: bool = True,
    within_s: float = 30.0,
) -> type[SinkConnectorSuite]:
    """Return the suite for a sink connector; give it a name that begins with ``Test``.

    Args:
        connector: the class.
        settings: valid settings, or a function of a fresh directory that returns some.
        records: at least six, of two partitions or more, with different values; `sink_records` makes some.
        read_back: returns what is in the target, from the settings.
        as_read_back: what `read_back` returns for a record; by default its value. Both are compared by their `repr`.
        is_exact: whether records that come again leave nothing twice in the target.
        bad_record: one that the target refuses.
        interruption: a context manager, made from the settings, within which the target fails.
        secrets: values in the settings that must stand in no error and in no line of the log.
        bad_settings: changes to the settings, each with the keys that must be named as at fault.
        is_installed: whether the plugin's distribution is installed.
        within_s: how long writing all records may take.
    """
    assert len(records) >= 6, "too few records to show anything"
    assert len({each.origin for each in records}) > 1, "the records must be of two partitions or more"
    left_out = [] if is_installed else ["test_an_entry_point_declares_the_class"]
    if interruption is None:
        left_out.append("test_records_are_written_once_the_target_is_back")
        left_out.append("test_an_outage_that_is_longer_than_all_retries_loses_nothing")
    if bad_record is None:
        left_out.append("test_a_bad_record_is_reported_and_the_others_are_written")
        left_out.append("test_a_bad_record_fails_the_task_where_errors_are_not_tolerated")
    if not secrets:
        left_out.append("test_no_error_and_no_line_of_the_log_has_a_secret")
    return make_suite(
        SinkConnectorSuite,
        connector,
        left_out=left_out,
        valid_settings=settings,
        bad_settings=bad_settings,
        records=records,
        bad_record=bad_record,
        read_back=read_back,
        as_read_back=as_read_back,
        is_exact=is_exact,
        interruption=interruption,
        secrets=tuple(secrets),
        within_s=within_s,
    )
