"""`HttpSink`: sends records to a web service.

Records are taken into an outbox, and leave it when the service has accepted them or they were reported as bad.
Offsets are committed up to the first record that is still there, so nothing is lost, and some records are sent again
after a crash. When the service fails, `put` raises `RetriableError`; the same records come again then, and those that
are in the outbox already are left out.
"""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from ottla_http.bodies import CONTENT_TYPES, body_of, encoded
from ottla_http.client import Answer, Client, NoAnswer, tls_problem
from ottla_http.outbox import Batch, Entry, Outbox, Target
from ottla_http.retry import backoff_ms
from ottla_http.sink_config import HttpSinkConfig
from ottla_http.url_template import Unfit, as_text, fill_url, placeholders, shown_url
from ottla_sdk import (
    ConnectError,
    DataError,
    FatalError,
    Problem,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    TopicIdentity,
    TopicPartition,
    is_another,
)

SEND_BUDGET_S = 10.0
"""After this long `put` returns, so that offsets are committed and the task can be stopped."""
STOPPING_SEND_BUDGET_S = 2.0
"""Likewise when the task is asked to stop."""
WAITING_RECORDS_MAX = 10_000
"""With more in the outbox the task asks for no further records."""
ANSWER_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a batch was not accepted, and how long the service asks to wait."""

    reason: str
    retry_after_ms: int | None = None


class HttpSinkTask(SinkTask[HttpSinkConfig]):
    """Sends the records of its partitions."""

    __module__ = "ottla_http"
    config_model: ClassVar[type[HttpSinkConfig]] = HttpSinkConfig

    _client: Client | None = None
    _executor: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Get ready; connections are made when records come.

        Raises:
            FatalError: certificates or keys cannot be used.
        """
        config = self.config
        self._client = Client(config)
        if config.concurrent_requests_max > 1:
            self._executor = ThreadPoolExecutor(config.concurrent_requests_max, "http-sink")
        self._outbox = Outbox(
            records_max=1 if config.envelope == "single" else config.records_max,
            bytes_max=config.bytes_max,
            linger_s=config.linger_ms / 1000,
        )
        self._next_offsets: dict[TopicPartition, int] = {}
        self._topics = TopicIdentity(self.context)
        self._topic_ids: dict[str, str | None] = {}
        self._unconfirmed: set[str] = set()  # topics of which records were left out since the last commit
        self._sought: set[TopicPartition] = set()  # come from their beginning next; nothing before counts
        self._paused: frozenset[TopicPartition] = frozenset()
        self._last_failure = ""
        self._needs_key = "key" in placeholders(config.url)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin with partitions, wherever their records begin."""
        for topic in sorted({partition.topic for partition in partitions}):
            # Partitions of it that are here already may show to be of a former one now.
            self._compare(topic, self._topics.ask_if_possible(topic, age_max_s=0))
        self._next_offsets.update(dict.fromkeys(partitions, -1))
        self._begin_sought()

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records, and send what is due.

        Raises:
            RetriableError: the service fails; what could not be sent is kept.
            ConnectError: it has failed for too many attempts in a row.
            FatalError: it refuses us, whatever we send.
        """
        self._sought.clear()
        self._check_topics(records)
        for record in records:
            self._take(record)
        self._begin_sought()
        failure = self._send_due(all_of_them=False)
        self._hold_back()
        if failure is not None:
            self._ask_for_pause()
            raise RetriableError(failure.reason)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Send all that can be sent now, and return how far records have been accepted or reported."""
        self._confirm_topics()
        failure = self._send_due(all_of_them=True)
        if failure is not None:
            self.context.log.warning("not all records could be sent before the commit: %s", failure.reason)
        waiting = self._outbox.first_offsets()
        return {
            partition: min(offset, waiting.get(partition, offset))
            for partition, offset in offsets.items()
            if partition not in self._sought
        }

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop what was not sent: it is not committed, and comes again."""
        self._outbox.drop(partitions)
        self._paused -= frozenset(partitions)
        self._sought.difference_update(partitions)
        for partition in partitions:
            self._next_offsets.pop(partition, None)

    def stop(self) -> None:
        """Close all connections."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
        client, self._client = self._client, None
        if client is not None:
            client.close()

    # Records.

    def _check_topics(self, records: Sequence[SinkRecord]) -> None:
        """Look whether records that would be left out are those that came before, or a new topic's of the same name.

        Raises:
            RetriableError: no broker says so now.
        """
        left_out = {each.original_topic for each in records if each.offset < self._next_offsets[each.origin]}
        self._unconfirmed |= left_out
        for topic in sorted(left_out):
            self._compare(topic, self._topics.ask(topic))

    def _confirm_topics(self) -> None:
        """Look once more: a broker that had not heard yet of a change may have been asked before."""
        for topic in sorted(self._unconfirmed):
            try:
                self._compare(topic, self._topics.ask(topic))
            except RetriableError as error:
                self.context.log.warning("%s", error)
                continue
            self._unconfirmed.discard(topic)
        self._begin_sought()

    def _compare(self, topic: str, found: str | None) -> None:
        """Take note of a topic's id; if it is another topic than before, all of it is to come."""
        known = self._topic_ids.get(topic)
        if found is None or found == known:
            return
        self._topic_ids[topic] = found
        if is_another(found, known):
            self.context.log.warning("the topic %s was created anew, with the id %s", topic, found)
            self._sought.update(each for each in self._next_offsets if each.topic == topic)

    def _begin_sought(self) -> None:
        """Begin partitions at their start: what came now may be the former topic's, repeated after a failure.

        Without this, whoever reads the new topic's first records later would find the former one's offsets here under
        an id that is known already, and leave those records out.
        """
        if self._sought:
            self._next_offsets.update(dict.fromkeys(self._sought, -1))
            self.context.seek(dict.fromkeys(self._sought, 0))

    def _take(self, record: SinkRecord) -> None:
        partition = record.origin
        assert partition in self._next_offsets, f"a record of {partition}, which was not opened"
        if record.offset < self._next_offsets[partition]:
            return  # it came before, and was sent, reported, or is in the outbox
        try:
            prepared = self._prepared(record)
        except DataError as error:
            self.context.metrics.add("records_refused")
            self.context.report(record, error)
        else:
            if prepared is not None:
                self._outbox.add(*prepared, time.monotonic())
        self._next_offsets[partition] = record.offset + 1

    def _prepared(self, record: SinkRecord) -> tuple[Target, Entry] | None:
        """Return where a record goes, and as what; None if nowhere.

        Raises:
            DataError: it cannot be sent.
        """
        config = self.config
        is_delete = False
        if record.value is None:
            if config.null_values == "skip":
                return None
            if config.null_values == "report":
                raise DataError("there is no value to send (see http.null.values)")
            is_delete = config.null_values == "delete"
        values = {"topic": record.topic, "partition": record.partition, "key": record.key}
        try:
            if self._needs_key and not as_text("key", record.key):
                raise Unfit("the key is empty, which the URL needs")
            url = fill_url(config.url, values)
        except Unfit as error:
            raise DataError(str(error)) from None
        if is_delete:
            return Target("DELETE", url), Entry(record, b"")
        body = encoded(record, config.value_format, whole_record=config.content == "record")
        return Target(config.method, url), Entry(record, body)

    def _hold_back(self) -> None:
        """Ask for no further records while many wait, and for more when they are fewer."""
        wanted = self.context.assignment if len(self._outbox) > WAITING_RECORDS_MAX else frozenset()
        if wanted != self._paused:
            if no_longer := self._paused - wanted:
                self.context.resume(no_longer)
            if more := wanted - self._paused:
                self.context.pause(more)
            self._paused = frozenset(wanted)

    # Requests.

    def _send_due(self, *, all_of_them: bool) -> _Failure | None:
        """Send what is due, until the service fails, or it has taken long enough; returns the failure."""
        stopping = self.context.should_stop()
        if stopping and not all_of_them:
            return None
        give_up_s = time.monotonic() + (STOPPING_SEND_BUDGET_S if stopping else SEND_BUDGET_S)
        failure: _Failure | None = None
        busy: dict[Future[Answer | _Failure], Batch] = {}
        while True:
            now_s = time.monotonic()
            if failure is None and now_s < give_up_s:
                due = self._outbox.due(now_s, all_of_them=all_of_them, busy=tuple(busy.values()))
                for batch in list(islice(due, self.config.concurrent_requests_max - len(busy))):
                    busy[self._submitted(batch)] = batch
            if not busy:
                return failure or self._still_failing(now_s)
            for done in wait(busy, return_when=FIRST_COMPLETED).done:
                failure = self._judge(busy.pop(done), done.result()) or failure

    def _submitted(self, batch: Batch) -> Future[Answer | _Failure]:
        if self._executor is not None:
            return self._executor.submit(self._send, batch)
        sent: Future[Answer | _Failure] = Future()
        sent.set_result(self._send(batch))
        return sent

    def _send(self, batch: Batch) -> Answer | _Failure:
        """Send a batch; may run in any thread."""
        assert self._client is not None, "the task was not started"
        config = self.config
        body = None
        headers = {}
        if batch.target.method != "DELETE":
            parts = [entry.body for entry in batch.entries]
            body = body_of(parts, config.envelope, member=config.member, compress=config.compression == "gzip")
            headers["Content-Type"] = CONTENT_TYPES[config.value_format, config.envelope]
            if config.compression == "gzip":
                headers["Content-Encoding"] = "gzip"
        if config.idempotency_header:
            (record,) = (entry.record for entry in batch.entries)
            place = f"{record.original_topic}-{record.original_partition}-{record.offset}"
            headers[config.idempotency_header] = place
        try:
            return self._client.send(*batch.target, body=body, headers=headers, bytes_max=ANSWER_BYTES_MAX, cut=True)
        except NoAnswer as error:
            return _Failure(f"{batch.target.method} {shown_url(batch.target.url)}: {error}")

    def _judge(self, batch: Batch, outcome: Answer | _Failure) -> _Failure | None:
        """Take note of what became of a batch; returns the failure if it must be sent again.

        Raises:
            FatalError: the service refuses us.
            ConnectError: it has been away for too many attempts.
        """
        self.context.metrics.add("requests")
        if isinstance(outcome, _Failure):
            return self._failed(batch, outcome)
        described = f"{batch.target.method} {shown_url(batch.target.url)} was answered with {outcome}"
        if outcome.is_success:
            self._outbox.remove(batch)
            self.context.metrics.add("records", len(batch.entries))
            return None
        if outcome.status in self.config.retriable:
            return self._failed(batch, _Failure(described, outcome.retry_after_ms))
        if outcome.status in self.config.fatal:
            raise FatalError(described)
        if len(batch.entries) > 1:
            self._outbox.split(batch)
        else:
            self._report(batch, described)
        return None

    def _failed(self, batch: Batch, failure: _Failure) -> _Failure:
        """Have a batch wait until it is to be sent again.

        Raises:
            ConnectError: it was sent too often in vain.
        """
        config = self.config
        batch.attempts += 1
        self.context.metrics.add("retries")
        if config.retry_attempts_max and batch.attempts >= config.retry_attempts_max:
            # Not the records' fault: they stay uncommitted, and come again when the task is started anew.
            raise ConnectError(f"gave up after {batch.attempts} attempts: {failure.reason}")
        wait_ms = backoff_ms(
            batch.attempts,
            first_ms=config.retry_backoff_ms,
            max_ms=config.retry_backoff_max_ms,
            chance=random.random(),  # noqa: S311
        )
        asked_ms = min(failure.retry_after_ms or 0, config.retry_backoff_max_ms)
        self._last_failure = failure.reason
        batch.not_before_s = time.monotonic() + max(wait_ms, asked_ms) / 1000
        return failure

    def _report(self, batch: Batch, reason: str) -> None:
        for entry in batch.entries:
            self.context.metrics.add("records_refused")
            self.context.report(entry.record, DataError(reason))
        self._outbox.remove(batch)

    def _still_failing(self, now_s: float) -> _Failure | None:
        """Return a failure while some batch waits to be sent again: no further records are of use before."""
        next_try_s = self._outbox.next_try_s()
        if next_try_s is None or next_try_s <= now_s:
            return None
        return _Failure(f"what failed before is not due yet: {self._last_failure}")

    def _ask_for_pause(self) -> None:
        next_try_s = self._outbox.next_try_s()
        if next_try_s is not None:
            self.context.retry_in(max(1, round((next_try_s - time.monotonic()) * 1000)))


class HttpSink(SinkConnector[HttpSinkConfig]):
    """Sends topics' records to a web service, one by one or in batches.

    Records are sent at least once, in order for each partition or URL. When the service fails or asks for patience,
    they are sent again later; a record that it refuses is reported, alone, also out of a batch.
    """

    __module__ = "ottla_http"
    config_model: ClassVar[type[HttpSinkConfig]] = HttpSinkConfig
    task_class: ClassVar[type[HttpSinkTask]] = HttpSinkTask

    def check(self) -> Iterable[Problem]:
        """Return whether the certificates can be used."""
        if problem := tls_problem(self.config):
            yield problem
