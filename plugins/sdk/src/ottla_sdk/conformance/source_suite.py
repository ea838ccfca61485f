"""Tests of source connectors: nothing lost and nothing skipped, wherever a task is restarted."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from ottla_sdk.conformance.contexts import MemoryOffsets, MemorySourceConnectorContext, MemorySourceTaskContext
from ottla_sdk.conformance.plugin_suite import BadSettings, Settings, make_suite, may_raise
from ottla_sdk.conformance.source_misfortunes import SourceMisfortunes
from ottla_sdk.conformance.source_run import SourceRun
from ottla_sdk.connectors import SourceConnector
from ottla_sdk.errors import RetriableError
from ottla_sdk.records import SourceRecord
from ottla_sdk.schema import check_value

POLL_MAX_S = 5.0
"""A worker waits about so long for a `poll` before it takes the task for stuck; about a second is right."""

_TASKS_MAX = (1, 2, 3, 10)

Interruption = Callable[[Mapping[str, str]], AbstractContextManager[None]]
"""Makes the system outside unreachable for the settings' connector, as long as the context is open."""

Recreation = Callable[[Mapping[str, str]], int]
"""Replaces what is read by something new of the same name; returns how many records that has."""


def _identity(record: SourceRecord) -> Hashable:
    return repr((record.topic, record.key, record.value))


class SourceConnectorSuite(SourceMisfortunes):
    """The suite; `source_connector_suite` makes one for a class.

    Attributes:
        plugin: the connector's class.
        expect_records: how many records there are; of an endless source, how many to look at.
        is_endless: whether more come after these.
        may_repeat: whether a restarted task may return records again that come right before the committed offset.
        identify: what of a record must be the same when it is read again.
        interruption: makes the system outside fail for a while; None if that cannot be done.
        recreation: creates anew what is read; None if that cannot be done.
        secrets: what must stand in no error and in no line of the log.
        within_s: how long reading all records may take.
    """

    plugin: ClassVar[type[SourceConnector[Any]]]
    expect_records: ClassVar[int]
    is_endless: ClassVar[bool]
    may_repeat: ClassVar[bool]
    identify: ClassVar[Callable[[SourceRecord], Hashable]]
    interruption: ClassVar[Interruption | None]
    recreation: ClassVar[Recreation | None]
    secrets: ClassVar[Sequence[str]]
    within_s: ClassVar[float]

    def test_the_division_into_tasks_is_within_bounds(self, settings: dict[str, str]) -> None:
        """At most `tasks.max` tasks, with texts as settings that the tasks' class takes."""
        connector = self._connector(settings)
        connector.start()
        try:
            for tasks_max in _TASKS_MAX:
                configs = connector.task_configs(tasks_max)
                assert len(configs) <= tasks_max, f"{len(configs)} tasks of at most {tasks_max}"
                for config in configs:
                    assert all(isinstance(part, str) for pair in config.items() for part in pair), "not only texts"
                    connector.task_class().configure(config)
        finally:
            connector.stop()

    def test_start_and_stop_may_come_again(self, settings: dict[str, str]) -> None:
        """`stop` is called also before `start`, and twice."""
        connector = self._connector(settings)
        connector.stop()
        connector.start()
        (config, *_) = connector.task_configs(1)
        task = connector.task_class()
        task.configure(config)
        task.context = MemorySourceTaskContext()
        task.stop()
        task.start()
        task.stop()
        task.stop()
        connector.stop()
        connector.stop()

    def test_the_configuration_is_found_right(self, settings: dict[str, str]) -> None:
        """`check` has nothing to say against the valid settings."""
        assert list(self._connector(settings).check()) == []

    def test_all_records_come(self, settings: dict[str, str]) -> None:
        """All that are expected, well formed; and no more."""
        with self._run(settings) as run:
            records = run.read(self.expect_records, within_s=self.within_s)
            if not self.is_endless:
                for number in range(len(run.tasks)):
                    run.poll(number)
                assert len(run.all_records) == self.expect_records, "more came than were expected"
            for record in records:
                _expect_well_formed(record)

    def test_poll_returns_in_time(self, settings: dict[str, str]) -> None:
        """Also when there is nothing, or a worker could not stop the task."""
        with self._run(settings) as run:
            run.read(self.expect_records, within_s=self.within_s)
            run.poll()
            assert run.longest_poll_s < POLL_MAX_S

    def test_a_waiting_poll_notices_the_end(self, settings: dict[str, str]) -> None:
        """A task that is asked to stop while it waits returns soon."""
        with self._run(settings) as run:
            run.read(self.expect_records, within_s=self.within_s)
            context = run.tasks[0].context
            assert isinstance(context, MemorySourceTaskContext)
            threading.Timer(0.05, context.request_stop).start()
            began_s = time.monotonic()
            run.poll()
            assert time.monotonic() - began_s < POLL_MAX_S

    def test_several_tasks_divide_the_records(self, settings: dict[str, str]) -> None:
        """Together they return each record once."""
        with self._run(settings) as alone, self._run(settings, tasks_max=3) as together:
            expected = self._identities(alone.read(self.expect_records, within_s=self.within_s))
            together.read(self.expect_records, within_s=self.within_s)
            if not self.is_endless:
                assert self._identities(together.all_records) == expected
            for records in together.records.values():
                others = [each for other in together.records.values() if other is not records for each in other]
                assert not _places(records) & _places(others), "two tasks returned records of the same place"

    def test_a_restarted_task_goes_on_behind_the_committed_offset(self, settings: dict[str, str]) -> None:
        """Wherever it was: nothing lost, and nothing twice unless the source says that it may repeat."""
        count = self.expect_records
        for committed in sorted({0, 1, count // 3, count // 2, count - 1, count}):
            with self._run(settings) as run:
                records = run.read(count, within_s=self.within_s)
            offsets = MemoryOffsets()
            offsets.commit_records(records[:committed])
            with self._run(settings, offsets=offsets) as restarted:
                self._expect_rest(restarted, records[:committed], records[committed:])

    def test_committed_offsets_are_taken_note_of(self, settings: dict[str, str]) -> None:
        """`committed` may be called at any time after `poll`, also twice with the same offsets."""
        with self._run(settings) as run:
            run.commit()
            run.read(max(1, self.expect_records // 2), within_s=self.within_s)
            run.commit()
            run.commit()

    def test_a_failed_poll_leaves_the_task_where_it_was(self, settings: dict[str, str]) -> None:
        """While its system is away, a task says `RetriableError` or returns nothing; then it goes on."""
        interruption = type(self).interruption
        assert interruption is not None, "the test is left out without one"
        with self._run(settings) as run:
            expected = self._identities(run.read(self.expect_records, within_s=self.within_s))
        with self._run(settings) as run:
            with interruption(settings):
                for _ in range(3):
                    with may_raise(RetriableError):
                        run.poll()
            run.read(self.expect_records, within_s=self.within_s)
            assert self._identities(run.all_records[: self.expect_records]) == expected

    def _connector(self, settings: Mapping[str, str]) -> SourceConnector[Any]:
        connector = self.plugin()
        connector.configure(settings)
        connector.context = MemorySourceConnectorContext()
        return connector

    def _run(
        self, settings: Mapping[str, str], *, tasks_max: int = 1, offsets: MemoryOffsets | None = None
    ) -> SourceRun:
        return SourceRun(self.plugin, settings, tasks_max=tasks_max, offsets=offsets)

    def _identities(self, records: Iterable[SourceRecord]) -> Counter[Hashable]:
        identify = type(self).identify
        return Counter(identify(each) for each in records)

    def _expect_rest(self, run: SourceRun, before: list[SourceRecord], after: list[SourceRecord]) -> None:
        expected = self._identities(after)
        deadline_s = time.monotonic() + self.within_s
        while expected - (got := self._identities(run.all_records)):
            assert time.monotonic() < deadline_s, f"lost behind {len(before)} records: {_shown(expected - got)}"
            run.poll()
        if not after:
            run.poll()
        got = self._identities(run.all_records)
        if self.is_endless:
            got = self._identities(run.all_records[: len(after)])
        if not self.may_repeat:
            assert got == expected, f"came again though committed: {_shown(got - expected)}"
        else:
            assert not got - expected - self._identities(before), "records came that were not there before"


def _shown(identities: Counter[Hashable]) -> str:
    return f"{identities.total()} records, such as {next(iter(identities), None)!s:.200}"


def _places(records: Iterable[SourceRecord]) -> set[str]:
    return {json.dumps([each.source_partition, each.source_offset], sort_keys=True) for each in records}


def _expect_well_formed(record: SourceRecord) -> None:
    assert isinstance(record, SourceRecord)
    assert isinstance(record.topic, str)
    assert record.topic, "a record is for no topic"
    for name, value in (("source_partition", record.source_partition), ("source_offset", record.source_offset)):
        assert json.loads(json.dumps(value)) == value, f"{name} is not the same behind JSON: {value}"
    if record.key_schema is not None:
        check_value(record.key_schema, record.key, "key")
    if record.value_schema is not None:
        check_value(record.value_schema, record.value, "value")


def source_connector_suite(
    connector: type[SourceConnector[Any]],
    *,
    settings: Settings,
    expect_records: int,
    is_endless: bool = False,
    may_repeat: bool = False,
    identify: Callable[[SourceRecord], Hashable] = _identity,
    interruption: Interruption | None = None,
    recreation: Recreation | None = None,
    secrets: Sequence[str] = (),
    bad_settings: BadSettings = (),
    is_installed: bool = True,
    within_s: float = 30.0,
) -> type[SourceConnectorSuite]:
    """Return the suite for a source connector; give it a name that begins with ``Test``.

    Args:
        connector: the class.
        settings: valid settings, or a function of a fresh directory that returns some.
        expect_records: how many records there are; of an endless source, how many to look at.
        is_endless: whether more come after these.
        may_repeat: whether a restarted task may return again some records that were committed.
        identify: what of a record must be the same when it is read again; by default topic, key and value.
        interruption: a context manager, made from the settings, within which the system outside fails.
        recreation: a function of the settings that replaces what is read by something new of the same name, such as a
            file or table, and returns how many records that has.
        secrets: values in the settings that must stand in no error and in no line of the log.
        bad_settings: changes to the settings, each with the keys that must be named as at fault.
        is_installed: whether the plugin's distribution is installed.
        within_s: how long reading all records may take.
    """
    assert expect_records > 0, "a source that returns no records shows nothing"
    left_out = [] if is_installed else ["test_an_entry_point_declares_the_class"]
    if interruption is None:
        left_out.append("test_a_failed_poll_leaves_the_task_where_it_was")
        left_out.append("test_an_outage_that_is_longer_than_all_retries_loses_nothing")
    if recreation is None:
        left_out.append("test_what_is_created_anew_is_read_from_its_beginning")
    if interruption is None or not secrets:
        left_out.append("test_no_error_and_no_line_of_the_log_has_a_secret")
    return make_suite(
        SourceConnectorSuite,
        connector,
        left_out=left_out,
        valid_settings=settings,
        bad_settings=bad_settings,
        expect_records=expect_records,
        is_endless=is_endless,
        may_repeat=may_repeat,
        identify=identify,
        interruption=interruption,
        recreation=recreation,
        secrets=tuple(secrets),
        within_s=within_s,
    )
