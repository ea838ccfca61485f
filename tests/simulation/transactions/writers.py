"""Clients that write in transactions, by both versions of the protocol, and note what they are about to do.

A writer has a transactional id, perhaps together with another writer, so that each takes the id from the other
again and again. It repeats what is not answered, gives an incarnation up at errors that are final, and begins anew.
Its notes outlive it: whatever was asked for and answered is known in the end.

By the older protocol all transactions of an incarnation have one epoch, so a request that was repeated may arrive
once more in the middle of the next transaction, and be taken for one of that: an EndTxn ends it, a TxnOffsetCommit
puts an old offset into it. No broker can tell (it is why KIP-890 came), so here a writer of that protocol does not
repeat these two; it takes its id anew, which shuts out what is late.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from ottla_core.wire.records import Record, encode_batch
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule
from tests.simulation.transactions.control import DATA_PARTITIONS, DATA_TOPIC
from tests.simulation.virtual_loop import VirtualLoop
from tests.support.clients.raw_client import decode_response, encode_request, response_type_of
from tests.support.clients.right_probes import made

if TYPE_CHECKING:
    from tests.simulation.transactions.processes import SimulatedBroker

REQUEST_TIMEOUT_MS = 2_500.0
PATIENCE_S = 12.0
"""For how long a request is repeated."""
RETRY_S = (0.02, 0.3)
TRANSACTION_TIMEOUT_MS = (2_000, 8_000)
RETRIABLE: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    }
)
INIT, PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSETS, END = 22, 0, 24, 25, 28, 26
NOT_REPEATED: Final = frozenset({END, COMMIT_OFFSETS})
VERSIONS: Final = {1: {PRODUCE: 9, END: 4, COMMIT_OFFSETS: 3}, 2: {PRODUCE: 12, END: 5, COMMIT_OFFSETS: 5}}


class GivenUp(Exception):
    """An incarnation cannot go on."""


class Unanswered(GivenUp):
    """A request was not answered, and may still be under way."""


@dataclass(slots=True)
class Transaction:
    """What is known of one transaction.

    Attributes:
        serial: in the order in which those of an id were begun.
        transactional_id: whose it is.
        values: of its records, by partition, in the order in which they were sent.
        offset: what it commits for the group of its id; None if it commits none.
        asked: the end that was asked for, None before any was.
        told: the end that was confirmed, None while none was.
    """

    serial: int
    transactional_id: str
    values: dict[int, list[bytes]] = field(default_factory=dict)
    offset: int | None = None
    asked: bool | None = None
    told: bool | None = None


@dataclass
class Notes:
    """What all writers have noted.

    Attributes:
        transactions: by serial.
        is_over: whether no new transaction is to begin.
    """

    transactions: dict[int, Transaction] = field(default_factory=dict)
    is_over: bool = False

    def begin(self, transactional_id: str) -> Transaction:
        """Note a transaction that is about to begin."""
        transaction = Transaction(len(self.transactions), transactional_id)
        self.transactions[transaction.serial] = transaction
        return transaction


class Writer(Process):
    """A client.

    Attributes:
        transactional_id: under which it writes.
        told_commits: how many commits were confirmed to it.
        version: of the protocol, 1 or 2.
    """

    def __init__(
        self,
        number: int,
        transactional_id: str,
        schedule: Schedule,
        network: Network,
        brokers: dict[int, "SimulatedBroker"],
        notes: Notes,
        unexpected: Callable[[str, Exception], None],
    ) -> None:
        super().__init__(f"writer {number}", schedule)
        self.transactional_id = transactional_id
        self.told_commits = 0
        self.loops: list[VirtualLoop] = []
        self._network = network
        self._brokers = brokers
        self._notes = notes
        self._unexpected = unexpected
        self.version = schedule.random.choice((1, 2))
        timeout = timedelta(milliseconds=schedule.random.randint(*TRANSACTION_TIMEOUT_MS))
        self._timeout = i32Timedelta.parse(timeout)
        self._correlation = 0
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}

    def on_start(self) -> None:
        """Live."""
        self.loop = VirtualLoop.of(self)
        self.loops.append(self.loop)
        self.loop.run(self.loop.create_task, self._live())

    def perform(self, action: Callable[..., None], *arguments: Any) -> None:
        """Do it on this life's event loop."""
        self.loop.run(action, *arguments)

    async def _live(self) -> None:
        try:
            while not self._notes.is_over:
                try:
                    await self._incarnation()
                except GivenUp as reason:
                    self.note("gives up: {}", str(reason))
                await asyncio.sleep(self.schedule.between(0.0, 1.0))  # of simulated time
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._unexpected(self.name, error)

    async def _incarnation(self) -> None:
        answer = await self._until_taken(
            INIT,
            4,
            {
                "transactional_id": self.transactional_id,
                "transaction_timeout": self._timeout,
                "producer_id": -1,
                "producer_epoch": -1,
            },
            lambda response: response.error_code,
        )
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._sequences = {}
        self.note("is producer {} with epoch {}", *self._producer)
        while not self._notes.is_over:
            await self._transact()
            if self.schedule.chance(0.05):
                return  # and take the id anew
            await asyncio.sleep(self.schedule.between(0.0, 0.4))  # of simulated time

    async def _transact(self) -> None:
        random = self.schedule.random
        transaction = self._notes.begin(self.transactional_id)
        partitions = random.sample(range(DATA_PARTITIONS), random.randint(1, 3))
        if self.version == 1:
            await self._add(partitions)
        try:
            for partition in partitions:
                for _ in range(random.randint(1, 2)):
                    await self._produce(transaction, partition, random.randint(1, 3))
        except Unanswered:
            # What clients do whose records have timed out. The request may come behind the end of the transaction.
            await self._end(transaction, commits=False)
            raise GivenUp("aborted what was not answered") from None
        if self.schedule.chance(0.5):
            await self._commit_offset(transaction)
        if self.schedule.chance(0.1):
            await asyncio.sleep(self.schedule.between(1.0, 9.0))  # perhaps longer than the transaction may take
        if self.schedule.chance(0.04):
            raise GivenUp("left open")
        await self._end(transaction, commits=self.schedule.chance(0.75))

    async def _add(self, partitions: list[int]) -> None:
        await self._until_taken(
            ADD_PARTITIONS,
            3,
            {
                "v3_and_below_transactional_id": self.transactional_id,
                "v3_and_below_producer_id": self._producer[0],
                "v3_and_below_producer_epoch": self._producer[1],
                "v3_and_below_topics": ({"name": DATA_TOPIC, "partitions": tuple(partitions)},),
            },
            lambda response: _worst(
                each.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ),
        )

    async def _produce(self, transaction: Transaction, partition: int, count: int) -> None:
        sent = transaction.values.setdefault(partition, [])
        values = [f"{transaction.serial}:{partition}:{len(sent) + number}".encode() for number in range(count)]
        sent.extend(values)
        sequence = self._sequences.get(partition, 0)
        batch = encode_batch(
            [Record(delta, 0, b"key", value) for delta, value in enumerate(values)],
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
            leader_epoch=-1,
            is_transactional=True,
        )
        fields = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "topic_data": ({"name": DATA_TOPIC, "partition_data": ({"index": partition, "records": batch},)},),
        }
        await self._until_taken(
            PRODUCE,
            VERSIONS[self.version][PRODUCE],
            fields,
            lambda response: response.responses[0].partition_responses[0].error_code,
            taken=frozenset({ErrorCode.none, ErrorCode.duplicate_sequence_number}),
            broker=self._leader(partition),
            is_patient=self.schedule.chance(0.5),
        )
        self._sequences[partition] = sequence + count

    async def _commit_offset(self, transaction: Transaction) -> None:
        group = f"group-{self.transactional_id}"
        transaction.offset = transaction.serial
        producer = {"producer_id": self._producer[0], "producer_epoch": self._producer[1]}
        if self.version == 1:
            await self._until_taken(
                ADD_OFFSETS,
                3,
                {"transactional_id": self.transactional_id, **producer, "group_id": group},
                lambda response: response.error_code,
            )
        offset = {"partition_index": 0, "committed_offset": transaction.serial}
        await self._until_taken(
            COMMIT_OFFSETS,
            VERSIONS[self.version][COMMIT_OFFSETS],
            {
                "transactional_id": self.transactional_id,
                "group_id": group,
                **producer,
                "topics": ({"name": DATA_TOPIC, "partitions": (offset,)},),
            },
            lambda response: response.topics[0].partitions[0].error_code,
        )

    async def _end(self, transaction: Transaction, *, commits: bool) -> None:
        transaction.asked = commits
        self.note("asks for the {} of {}", "commit" if commits else "abort", transaction.serial)
        answer = await self._until_taken(
            END,
            VERSIONS[self.version][END],
            {
                "transactional_id": self.transactional_id,
                "producer_id": self._producer[0],
                "producer_epoch": self._producer[1],
                "committed": commits,
            },
            lambda response: response.error_code,
        )
        transaction.told = commits
        self.told_commits += commits
        if self.version == 2:
            after = (answer.producer_id, answer.producer_epoch)
            if after != self._producer:
                self._producer, self._sequences = after, {}

    def _leader(self, partition: int) -> "SimulatedBroker":
        any_broker = next(iter(self._brokers.values()))
        state = any_broker.control.state.topics[DATA_TOPIC].partitions[partition]
        return self._brokers[state.leader]

    async def _until_taken(
        self,
        api_key: int,
        version: int,
        fields: dict[str, Any],
        code_of: Callable[[Any], ErrorCode],
        *,
        taken: frozenset[ErrorCode] = frozenset({ErrorCode.none}),
        broker: "SimulatedBroker | None" = None,
        is_patient: bool = True,
    ) -> Any:
        """Repeat a request until it is answered with no error.

        Raises:
            Unanswered: it was not answered, and is not to be repeated.
            GivenUp: the error is final, or it takes too long.
        """
        message = made(load_request_schema(api_key, version), fields)
        end_s = self.loop.time() + PATIENCE_S
        while self.loop.time() < end_s:
            target = broker or self.schedule.random.choice(list(self._brokers.values()))
            response = await self._ask(target, message)
            if response is None and self.version == 1 and api_key in NOT_REPEATED:
                raise GivenUp(f"{type(message).__name__}: may come late")
            if response is None and not is_patient:
                raise Unanswered(f"{type(message).__name__}: no answer")
            code = None if response is None else code_of(response)
            if code in taken:
                return response
            if code is not None and code not in RETRIABLE:
                raise GivenUp(f"{type(message).__name__}: {code.name}")
            await asyncio.sleep(self.schedule.between(*RETRY_S))  # of simulated time
        raise GivenUp(f"{type(message).__name__}: no answer")

    async def _ask(self, broker: "SimulatedBroker", message: Any) -> Any:
        """Return the answer; None if none comes in time."""
        self._correlation += 1
        answered: asyncio.Future[bytes | None] = self.loop.create_future()

        def over(answer: bytes | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        frame = encode_request(message, self._correlation)
        self._network.call(self, broker, broker.handle, frame, over, REQUEST_TIMEOUT_MS)
        answer = await answered
        return None if answer is None else decode_response(answer, response_type_of(message))[1]


def _worst(codes: Iterable[ErrorCode]) -> ErrorCode:
    """Return the first error that is final, or that passes, or none."""
    failed = [each for each in codes if each is not ErrorCode.none]
    passing = failed[0] if failed else ErrorCode.none
    return next((each for each in failed if each not in RETRIABLE), passing)
