"""What can befall any sink: a topic that is created anew, a takeover, a stop in the middle, a long outage."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar

import pytest

from ottla_sdk.conformance.plugin_suite import PluginSuite, expect_no_secret
from ottla_sdk.conformance.sink_run import SinkRun, begun_anew
from ottla_sdk.connectors import SinkConnector
from ottla_sdk.errors import ConnectError, FatalError, RetriableError
from ottla_sdk.records import SinkRecord

BATCH_RECORDS = 3
TRIES_MAX = 30
"""In an outage; more than any sink of ours tries again before it gives up."""


class SinkMisfortunes(PluginSuite):
    """Tests of sink connectors whose misfortunes the suite brings about; `SinkConnectorSuite` has the attributes."""

    plugin: ClassVar[type[SinkConnector[Any]]]
    records: ClassVar[Sequence[SinkRecord]]
    bad_record: ClassVar[SinkRecord | None]
    is_exact: ClassVar[bool]
    interruption: ClassVar[Callable[[Mapping[str, str]], AbstractContextManager[None]] | None]
    secrets: ClassVar[Sequence[str]]
    within_s: ClassVar[float]

    def _expect_present(self, settings: Mapping[str, str], records: Sequence[SinkRecord] | None = None) -> None:
        raise NotImplementedError

    def test_a_topic_that_was_created_anew_is_not_taken_for_written(self, settings: dict[str, str]) -> None:
        """Its offsets begin with 0 again: its records are written too, or the task fails and says why."""
        former, anew = self._two_topics()
        with self._run_of(settings, former, "former") as run:
            self._finish(run)
        with suppress(FatalError), self._run_of(settings, anew, "anew") as run:
            self._finish(run)
            self._expect_present(settings, [*former, *anew])

    def test_a_topic_that_is_created_anew_while_a_task_runs_is_not_taken_for_written(
        self, settings: dict[str, str]
    ) -> None:
        """Likewise, where the task has seen the former topic's records."""
        former, anew = self._two_topics()
        run = self._run_of(settings, former, "former")
        with run:
            self._finish(run)
            run.create_topics_anew(anew, dict.fromkeys(_topics(anew), "anew"))
            try:
                self._finish(run)
            except FatalError:
                run.crash()
                return
            self._expect_present(settings, [*former, *anew])

    def test_a_task_that_wakes_up_after_a_takeover_does_no_harm(self, settings: dict[str, str]) -> None:
        """A task that was paused does not know that its partitions are another's; it goes on until it is told."""
        paused = SinkRun(self.plugin, settings, self.records)
        with paused:
            paused.put(paused.next_records(BATCH_RECORDS))
            paused.commit()
            with SinkRun(self.plugin, settings, self.records, committed=paused.committed) as successor:
                successor.put_all(BATCH_RECORDS, within_s=self.within_s)
                successor.commit_all(within_s=self.within_s)
                with suppress(ConnectError):
                    while batch := paused.next_records(BATCH_RECORDS):
                        paused.put_once(batch)
                        paused.commit()
                paused.crash()
        self._expect_present(settings)

    def test_a_stop_in_the_middle_of_a_write_loses_nothing(self, settings: dict[str, str]) -> None:
        """The task is asked to stop while it puts and commits; the next one goes on where it came to."""
        with SinkRun(self.plugin, settings, self.records) as run:
            run.put(run.next_records(BATCH_RECORDS))
            run.context.request_stop()
            with suppress(RetriableError):
                run.put_once(run.next_records(BATCH_RECORDS))
                run.commit()
            committed = dict(run.committed)
            run.crash()
        with SinkRun(self.plugin, settings, self.records, committed=committed) as run:
            self._finish(run)
        self._expect_present(settings)

    def test_an_outage_that_is_longer_than_all_retries_loses_nothing(self, settings: dict[str, str]) -> None:
        """The task may give up; that its target is away is no fault of a record, and the next task goes on."""
        interruption = type(self).interruption
        assert interruption is not None, "the test is left out without one"
        with SinkRun(self.plugin, settings, self.records) as run:
            batch = run.next_records(BATCH_RECORDS)
            with interruption(settings):
                said = self._attempts(run, batch)
            committed = dict(run.committed)
            expect_no_secret(said, self.secrets)
            assert not run.context.reported, "a record is reported as bad because the target is away"
            run.crash()
        with SinkRun(self.plugin, settings, self.records, committed=committed) as run:
            self._finish(run)
        self._expect_present(settings)

    def test_no_error_and_no_line_of_the_log_has_a_secret(
        self, settings: dict[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """They go to logs, statuses and dead letter topics."""
        bad, interruption = self.bad_record, type(self).interruption
        records = self.records if bad is None else [bad, *self.records[1:]]
        said: list[str] = []
        with SinkRun(self.plugin, settings, records) as run:
            if interruption is not None:
                with interruption(settings):
                    said += self._attempts(run, run.next_records(BATCH_RECORDS))
                    said += map(str, run.connector.check())
            else:
                run.put(run.next_records(BATCH_RECORDS))
            said += [str(error) for _, error in run.context.reported]
            run.crash()
        expect_no_secret([*said, caplog.text], self.secrets)

    def _attempts(self, run: SinkRun, batch: Sequence[SinkRecord]) -> list[str]:
        """Try to put and to commit while the target is away, until the task gives up; return what it said."""
        said = []
        for _ in range(TRIES_MAX):
            try:
                run.task.put(batch)
                run.task.pre_commit({each.origin: each.offset + 1 for each in batch})
            except RetriableError as error:
                said.append(str(error))
            except ConnectError as error:
                return [*said, str(error)]
        return said

    def _finish(self, run: SinkRun) -> None:
        run.put_all(BATCH_RECORDS, within_s=self.within_s)
        run.commit_all(within_s=self.within_s)

    def _two_topics(self) -> tuple[Sequence[SinkRecord], Sequence[SinkRecord]]:
        """Return the records of a topic, and fewer of its successor's: all its offsets were the former one's too."""
        divided = len(self.records) * 2 // 3
        return begun_anew(self.records[:divided]), begun_anew(self.records[divided:])

    def _run_of(self, settings: Mapping[str, str], records: Sequence[SinkRecord], topic_id: str) -> SinkRun:
        run = SinkRun(self.plugin, settings, records)
        run.context.topic_ids = dict.fromkeys(_topics(records), topic_id)
        return run


def _topics(records: Iterable[SinkRecord]) -> set[str]:
    return {each.original_topic for each in records}
