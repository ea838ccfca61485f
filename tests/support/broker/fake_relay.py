"""Stands for the way to coordinators: notes what they are asked, and answers as a test says."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_broker.groups.errors import NotCoordinator, VerificationNeeded
from ottla_broker.groups.marker_writing import MarkerWriting
from ottla_broker.groups.relay import OWN_HOST, answer_or_raise
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.errors import CodedError, KafkaError
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.group_responses import error_response
from ottla_core.wire.messages import message_codec, read_request_header


@dataclass
class Asked:
    """What a coordinator was asked.

    Attributes:
        message: the request, decoded.
    """

    shard: TopicPartition
    frame: bytes
    api_key: int
    version: int
    message: Any
    fresh_producer_id: int | None
    verification_guard: int | None


Answering = Callable[[Asked], Any]
"""Returns a response, an error that keeps it from coming, or None if it never comes."""


class FakeRelay:
    """Attributes:
    asked: everything, in order.
    answering: answers it.
    held: what was not answered.
    """

    def __init__(self, answering: Answering, markers: MarkerWriting | None = None) -> None:
        self.asked: list[Asked] = []
        self.answering = answering
        self.markers = markers
        self.held: list[tuple[Asked, CallbackAnswer[Any], Callable[[Any], Any]]] = []

    def ask(
        self,
        shard: TopicPartition,
        frame: bytes,
        _client_host: str,
        finish: Callable[[bytes | NotCoordinator], Any],
        *,
        client: Any = None,
        fresh_producer_id: int | None = None,
        verification_guard: int | None = None,
    ) -> CallbackAnswer[Any]:
        assert client is None, "coordinators are told of clients for other requests only"
        view = memoryview(frame)
        header = read_request_header(view)
        codec = message_codec(header.api_key, header.api_version)
        asked = Asked(
            shard,
            frame,
            header.api_key,
            header.api_version,
            codec.read_request(view, header),
            fresh_producer_id,
            verification_guard,
        )
        self.asked.append(asked)
        answer: CallbackAnswer[Any] = CallbackAnswer()
        self._answer(asked, answer, finish)
        return answer

    def answer_held(self) -> None:
        """Answer what was not answered yet."""
        held, self.held = self.held, []
        for each in held:
            self._answer(*each)

    def _answer(self, asked: Asked, answer: CallbackAnswer[Any], finish: Callable[[Any], Any]) -> None:
        header = read_request_header(memoryview(asked.frame))
        codec = message_codec(asked.api_key, asked.version)
        response = self.answering(asked)
        if response is None:
            self.held.append((asked, answer, finish))
        elif isinstance(response, NotCoordinator) and not isinstance(response, VerificationNeeded):
            _later(answer, finish, response)
        elif isinstance(response, KafkaError):
            asyncio.get_running_loop().call_soon(answer.fail, response)
        else:
            _later(answer, finish, codec.encode_response(header.correlation_id, response))

    def ask_shard(self, shard: TopicPartition, frame: bytes) -> CallbackAnswer[bytes]:
        return self.ask(shard, frame, OWN_HOST, answer_or_raise)

    async def ask_all(self, frame: bytes, client_host: str, topic: str) -> list[bytes]:
        return [await self.ask(TopicPartition(topic, -1), frame, client_host, answer_or_raise)]


def _later(answer: CallbackAnswer[Any], finish: Callable[[Any], Any], result: Any) -> None:
    def settle() -> None:
        try:
            answer.settle(finish(result))
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            answer.fail(error)

    asyncio.get_running_loop().call_soon(settle)


def refusing(code: ErrorCode) -> Answering:
    """Refuse everything with an error; with `ErrorCode.none`, accept it."""
    return lambda asked: error_response(
        asked.api_key, asked.version, asked.message, CodedError(code, "as the test says")
    )


def partition_codes(code: ErrorCode) -> Answering:
    """Answer questions about partitions of transactions, each partition with the same error."""
    return by_partition(lambda _: code)


def by_partition(code_of: Callable[[TopicPartition], ErrorCode]) -> Answering:
    """Answer questions about partitions of transactions, each partition with an error of its own."""

    def answer(asked: Asked) -> Any:
        response = message_codec(asked.api_key, asked.version).response_type
        result_type = item_type(response, "results_by_transaction")
        topic_type = item_type(result_type, "topic_results")
        partition_type = item_type(topic_type, "results_by_partition")

        def partitions(topic: Any) -> Sequence[Any]:
            return tuple(
                message_of(
                    partition_type,
                    partition_index=index,
                    partition_error_code=code_of(TopicPartition(topic.name, index)),
                )
                for index in topic.partitions
            )

        return message_of(
            response,
            results_by_transaction=tuple(
                message_of(
                    result_type,
                    transactional_id=each.transactional_id,
                    topic_results=tuple(
                        message_of(topic_type, name=topic.name, results_by_partition=partitions(topic))
                        for topic in each.topics
                    ),
                )
                for each in asked.message.transactions
            ),
        )

    return answer
