"""What operators ask of a cluster, each request repeated until it is carried out or the operator's patience is over.

Any broker is asked that answers. A request whose answer is lost is sent again: all of them name what shall be, so
carrying one out twice changes nothing. `Asked` is one try, and says how it ended.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient, Silence
from tests.support.messages.sparse_request import sparse_request

PATIENCE_S = 90.0
PAUSE_S = 0.2
REQUEST_TIMEOUT_MS = 5000
TOPIC_RESOURCE = 2
SET, DELETE = 0, 1
OF_THE_TOPIC = 1
"""Where a setting has its value from."""
PREFERRED = 0
UNKNOWN_TOPIC = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})
PASSING = frozenset(
    {
        ErrorCode.unknown_server_error,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.broker_not_available,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_controller,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.operation_not_attempted,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.rebalance_in_progress,
        ErrorCode.eligible_leaders_not_available,
        ErrorCode.preferred_leader_not_available,
        ErrorCode.invalid_replication_factor,  # too few brokers are alive
        ErrorCode.throttling_quota_exceeded,
    }
)
"""Errors that pass by themselves while faults are in force."""


class OutOfPatience(AssertionError):
    """Nobody has carried out a request."""


class Partition(NamedTuple):
    """A partition as a broker shows it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]


class Shown(NamedTuple):
    """A topic as a broker shows it."""

    topic_id: UUID
    partitions: dict[int, Partition]


class OperatorRequests:
    """Requests of one operator.

    Attributes:
        addresses: host and port of each broker by its id.
        perhaps_created: topics of which a request for their creation was not answered. A broker that stalls may carry
            it out whenever it goes on, after the topic was created by another request and deleted.
        unanswered: how many requests were sent, and not answered.
    """

    def __init__(self, addresses: Mapping[int, tuple[str, int]], *, seed: str, gave_up: threading.Event):
        """See the class.

        Args:
            addresses: host and port of each broker by its id.
            seed: decides which broker is asked.
            gave_up: when set, no request is repeated any more.
        """
        self.addresses = addresses
        self.perhaps_created: set[str] = set()
        self.unanswered = 0
        self._chance = random.Random(seed)
        self._gave_up = gave_up

    def ask(self, request: Any, broker: int | None = None) -> Any:
        """Asks one broker, or one that is drawn.

        Raises:
            ConnectionError: it does not answer.
        """
        host, port = self.addresses[broker or self._chance.choice(list(self.addresses))]
        try:
            client = RawClient(host, port)
        except OSError as error:
            raise ConnectionError(str(error)) from error
        with client:
            try:
                return client.ask(request)
            except (OSError, Silence) as error:
                self.unanswered += 1
                raise ConnectionError(str(error)) from error

    def until_done(
        self, attempt: Callable[[], ErrorCode], what: str, *, also: frozenset[ErrorCode] = frozenset()
    ) -> ErrorCode:
        """Repeats an attempt until it succeeds or ends with one of some other errors, and returns how it ended.

        Raises:
            OutOfPatience: neither has happened.
            AssertionError: an error that does not pass.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        last: object = None
        while time.monotonic() < deadline_s and not self._gave_up.is_set():
            try:
                error = attempt()
                if error is ErrorCode.none or error in also:
                    return error
                assert error in PASSING, f"{what}: {error.name}"
                last = error.name
            except ConnectionError as broken:
                last = broken
            self._gave_up.wait(PAUSE_S)
        raise OutOfPatience(f"{what}: given up; last: {last}")

    def topic(self, name: str, broker: int | None = None) -> Shown | None:
        """A topic as one broker shows it; None if it knows no such topic.

        Raises:
            ConnectionError: the broker does not answer.
        """
        (told,) = self.ask(sparse_request("metadata", 12, topics=[{"name": name}]), broker).topics
        if told.error_code is not ErrorCode.none:
            return None
        return Shown(
            told.topic_id,
            {
                each.partition_index: Partition(each.leader_id, each.leader_epoch, tuple(each.replica_nodes))
                for each in told.partitions
            },
        )

    def wait_for_topic(self, name: str) -> Shown:
        """A topic as soon as some broker shows it."""
        found: list[Shown] = []

        def attempt() -> ErrorCode:
            shown = self.topic(name)
            found.extend([shown] if shown else [])
            return ErrorCode.none if shown else ErrorCode.leader_not_available

        self.until_done(attempt, f"see {name}")
        return found[-1]

    def topics(self) -> dict[str, UUID]:
        """All topics and their ids, as one broker shows them.

        Raises:
            ConnectionError: the broker does not answer.
        """
        answer = self.ask(sparse_request("metadata", 12, topics=None))
        return {told.name: told.topic_id for told in answer.topics}

    def create_topic(self, name: str, *, partitions: int, factor: int, configs: Mapping[str, str]) -> UUID | None:
        """Creates a topic and returns its id; None if an earlier try did, whose answer was lost.

        Raises:
            AssertionError: there is such a topic before it is asked for.
        """
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": factor,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        answers: list[Any] = []

        def attempt() -> ErrorCode:
            answers.append(None)
            request = sparse_request("create_topics", 7, timeout=REQUEST_TIMEOUT_MS, topics=[wanted])
            answers[-1] = self.ask(request).topics[0]
            return _code(answers[-1])

        self.until_done(attempt, f"create {name}", also=frozenset({ErrorCode.topic_already_exists}))
        if None in answers:
            self.perhaps_created.add(name)
        created = _code(answers[-1]) is ErrorCode.none
        assert created or len(answers) > 1, f"{name} exists, although nobody has created it since it was deleted"
        return answers[-1].topic_id if created else None

    def delete_topic(self, name: str, topic_id: UUID) -> None:
        """Deletes a topic, by its id: a request that is carried out late must not delete what has its name by then.

        Raises:
            AssertionError: it is gone before that is asked for.
        """
        answers: list[Any] = []

        def attempt() -> ErrorCode:
            answers.append(None)
            doomed = {"name": None, "topic_id": topic_id}
            request = sparse_request("delete_topics", 6, timeout=REQUEST_TIMEOUT_MS, topics=[doomed])
            answers[-1] = self.ask(request).responses[0]
            return _code(answers[-1])

        ended = self.until_done(attempt, f"delete {name}", also=UNKNOWN_TOPIC)
        assert ended is ErrorCode.none or len(answers) > 1, f"{name} with the id {topic_id} is gone by itself"

    def add_partitions(self, topic: str, count: int) -> None:
        """Raises the number of a topic's partitions."""

        def attempt() -> ErrorCode:
            wanted = {"name": topic, "count": count, "assignments": None}
            request = sparse_request("create_partitions", 3, timeout=REQUEST_TIMEOUT_MS, topics=[wanted])
            return _code(self.ask(request).results[0])

        self.until_done(attempt, f"{count} partitions for {topic}", also=frozenset({ErrorCode.invalid_partitions}))

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int] | None]) -> None:
        """Begins to move partitions, or cancels moves where None is wanted."""
        wanted = [{"partition_index": index, "replicas": ids} for index, ids in replicas.items()]

        def attempt() -> ErrorCode:
            answer = self.ask(
                sparse_request(
                    "alter_partition_reassignments",
                    0,
                    timeout=REQUEST_TIMEOUT_MS,
                    topics=[{"name": topic, "partitions": wanted}],
                )
            )
            if answer.error_code is not ErrorCode.none:
                return _code(answer)
            return _first_error(each for each in answer.responses[0].partitions)

        also = frozenset({ErrorCode.no_reassignment_in_progress}) if None in replicas.values() else frozenset()
        # A broker that is away is no place to move to; it may be back when this is asked again.
        self.until_done(
            lambda: _as_passing(attempt(), ErrorCode.invalid_replica_assignment),
            f"move {topic} to {replicas}",
            also=also,
        )

    def moves(self) -> list[str]:
        """The partitions that are on the move.

        Raises:
            ConnectionError: the broker does not answer.
        """
        answer = self.ask(sparse_request("list_partition_reassignments", 0, timeout=REQUEST_TIMEOUT_MS, topics=None))
        if answer.error_code is not ErrorCode.none:
            raise ConnectionError(answer.error_code.name)
        return [f"{topic.name}-{each.partition_index}" for topic in answer.topics for each in topic.partitions]

    def topic_config(self, topic: str, key: str) -> str | None:
        """The value that a topic's setting was given; None if it has the default."""
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": [key]}
        answers: list[Any] = []

        def attempt() -> ErrorCode:
            answers[:] = self.ask(sparse_request("describe_configs", 4, resources=[resource])).results
            return _code(answers[0])

        self.until_done(attempt, f"describe {key} of {topic}")
        found = [each for each in answers[0].configs if each.config_source == OF_THE_TOPIC]
        return str(found[0].value) if found else None

    def set_topic_config(self, topic: str, key: str, value: str | None) -> None:
        """Gives a topic's setting another value, or its default."""
        change = {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [change]}

        def attempt() -> ErrorCode:
            return _code(self.ask(sparse_request("incremental_alter_configs", 1, resources=[resource])).responses[0])

        self.until_done(attempt, f"{key}={value} for {topic}")

    def elect_preferred_leaders(self) -> None:
        """Has every partition led by its first replica, as far as that is in sync."""

        def attempt() -> ErrorCode:
            request = sparse_request(
                "elect_leaders", 2, election_type=PREFERRED, topic_partitions=None, timeout=REQUEST_TIMEOUT_MS
            )
            return _code(self.ask(request))

        self.until_done(attempt, "elect preferred leaders")


def _code(answer: Any) -> ErrorCode:
    code: ErrorCode = answer.error_code
    return code


def _first_error(answers: Any) -> ErrorCode:
    return next((code for answer in answers if (code := _code(answer)) is not ErrorCode.none), ErrorCode.none)


def _as_passing(error: ErrorCode, passing: ErrorCode) -> ErrorCode:
    return ErrorCode.broker_not_available if error is passing else error
