"""What can befall any source: what it reads is created anew, a takeover, a stop in the middle, a long outage."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar

import pytest

from ottla_sdk.conformance.contexts import MemoryOffsets, MemorySourceTaskContext
from ottla_sdk.conformance.plugin_suite import PluginSuite, expect_no_secret
from ottla_sdk.conformance.source_run import SourceRun
from ottla_sdk.connectors import SourceConnector
from ottla_sdk.errors import ConnectError, RetriableError
from ottla_sdk.records import SourceRecord

TRIES_MAX = 10
"""Polls in an outage."""


class SourceMisfortunes(PluginSuite):
    """Tests of source connectors that the suite brings into trouble; `SourceConnectorSuite` has the attributes."""

    plugin: ClassVar[type[SourceConnector[Any]]]
    expect_records: ClassVar[int]
    interruption: ClassVar[Callable[[Mapping[str, str]], AbstractContextManager[None]] | None]
    recreation: ClassVar[Callable[[Mapping[str, str]], int] | None]
    secrets: ClassVar[Sequence[str]]
    within_s: ClassVar[float]

    def _run(
        self, settings: Mapping[str, str], *, tasks_max: int = 1, offsets: MemoryOffsets | None = None
    ) -> SourceRun:
        raise NotImplementedError

    def _identities(self, records: Iterable[SourceRecord]) -> Counter[Hashable]:
        raise NotImplementedError

    @pytest.mark.parametrize("is_away", [True, False])
    def test_what_is_created_anew_is_read_from_its_beginning(self, settings: dict[str, str], is_away: bool) -> None:
        """What an offset says of a file or table that has gone does not hold for another one of the same name."""
        recreation = type(self).recreation
        assert recreation is not None, "the test is left out without one"
        offsets = MemoryOffsets()
        with self._run(settings, offsets=offsets) as run:
            run.read(self.expect_records, within_s=self.within_s)
            run.commit()
            if not is_away:
                count = recreation(settings)
                run.read(self.expect_records + count, within_s=self.within_s)
                return
        count = recreation(settings)
        with self._run(settings, offsets=offsets) as run:
            run.read(count, within_s=self.within_s)

    def test_a_task_that_wakes_up_after_a_takeover_does_no_harm(self, settings: dict[str, str]) -> None:
        """A task that was paused goes on until it is told; its successor reads everything behind the commit."""
        with self._run(settings) as paused:
            first = list(paused.read(max(1, self.expect_records // 3), within_s=self.within_s))
            offsets = MemoryOffsets()
            offsets.commit_records(first)
            with self._run(settings) as reference:
                expected = self._identities(reference.read(self.expect_records, within_s=self.within_s))
            with self._run(settings, offsets=offsets) as successor:
                successor.poll()
                with suppress(ConnectError):
                    paused.poll()
                    paused.commit(first)
                self._read_rest(successor, expected - self._identities(first))

    def test_a_stop_in_the_middle_of_a_poll_loses_nothing(self, settings: dict[str, str]) -> None:
        """The task is asked to stop while it polls; the next one goes on behind what was returned."""
        with self._run(settings) as reference:
            expected = self._identities(reference.read(self.expect_records, within_s=self.within_s))
        offsets = MemoryOffsets()
        with self._run(settings, offsets=offsets) as run:
            context = run.tasks[0].context
            assert isinstance(context, MemorySourceTaskContext)
            context.request_stop()
            with suppress(RetriableError):
                run.poll()
            run.commit()
            first = list(run.all_records)
        with self._run(settings, offsets=offsets) as run:
            self._read_rest(run, expected - self._identities(first))

    def test_an_outage_that_is_longer_than_all_retries_loses_nothing(self, settings: dict[str, str]) -> None:
        """The task may give up; the next one goes on where the last one was committed."""
        interruption = type(self).interruption
        assert interruption is not None, "the test is left out without one"
        with self._run(settings) as reference:
            expected = self._identities(reference.read(self.expect_records, within_s=self.within_s))
        offsets = MemoryOffsets()
        with self._run(settings, offsets=offsets) as run:
            with interruption(settings):
                expect_no_secret(self._polls(run), self.secrets)
            run.commit()
            first = list(run.all_records)
        with self._run(settings, offsets=offsets) as run:
            self._read_rest(run, expected - self._identities(first))

    def test_no_error_and_no_line_of_the_log_has_a_secret(
        self, settings: dict[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """They go to logs and statuses."""
        interruption = type(self).interruption
        assert interruption is not None, "the test is left out without one"
        with self._run(settings) as run, interruption(settings):
            said = [*self._polls(run), *map(str, run.connector.check())]
        expect_no_secret([*said, caplog.text], self.secrets)

    def _polls(self, run: SourceRun) -> list[str]:
        """Poll while the system is away, until the task gives up; return what it said."""
        said = []
        for _ in range(TRIES_MAX):
            try:
                run.poll()
            except RetriableError as error:
                said.append(str(error))
            except ConnectError as error:
                return [*said, str(error)]
        return said

    def _read_rest(self, run: SourceRun, expected: Counter[Hashable]) -> None:
        deadline_s = time.monotonic() + self.within_s
        while missing := expected - self._identities(run.all_records):
            assert time.monotonic() < deadline_s, f"lost: {missing.total()}, such as {next(iter(missing))!s:.200}"
            for number in range(len(run.tasks)):
                run.poll(number)
