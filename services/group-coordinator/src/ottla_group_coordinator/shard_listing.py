"""ListGroups and ListTransactions over all shards of this process: each is asked, and their answers become one.

A shard that is lost meanwhile is left out, as its new owner lists it. Any other refusal refuses the whole, because a
list that silently lacks groups is worse than none. Source: `listGroups` of Kafka's GroupCoordinatorService, and
`listTransactionStates` of its TransactionStateManager.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from ottla_core.errors import CodedError, KafkaError
from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime
from ottla_group_coordinator.runtime.waiting_request import WaitingRequest


def list_all_shards(
    waiting: WaitingRequest,
    request: Any,
    shards: Collection[ShardRuntime[Any]],
    tokens: Iterator[int],
    *,
    listed: str,
) -> None:
    """Have a request for a list answered by all shards together.

    Args:
        waiting: who waits for the answer.
        request: what is asked; of the class that the shards take.
        shards: who is asked.
        tokens: gives the tokens under which they are asked.
        listed: the field of the response that has the list.
    """
    listing = _Listing(waiting, len(shards), listed)
    if not shards:
        listing.finish()
    for shard in tuple(shards):
        shard.submit(_Part(listing, replace(request, token=next(tokens))))


class _Listing:
    """What has been answered so far."""

    def __init__(self, waiting: WaitingRequest, missing: int, listed: str) -> None:
        self._listed = listed
        self._waiting = waiting
        self._missing = missing
        self._responses: list[Any] = []
        self._refusal: KafkaError | None = None

    def add(self, response: Any, refusal: KafkaError | None) -> None:
        """Take one shard's part; the last gives the answer."""
        if response is not None:
            self._responses.append(response)
        self._refusal = self._refusal or refusal
        self._missing -= 1
        if self._missing == 0:
            self.finish()

    def finish(self) -> None:
        """Give the answer."""
        request = self._waiting.request
        if self._refusal is not None:
            self._waiting.refuse(self._refusal)
        elif self._responses:
            whole = tuple(each for response in self._responses for each in getattr(response, self._listed))
            self._waiting.answer(replace(self._responses[0], **{self._listed: whole}))
        else:
            self._waiting.answer(message_of(load_response_schema(request.api_key, request.api_version)))


class _Part:
    """One shard's part of the answer."""

    __slots__ = ("_listing", "request")

    def __init__(self, listing: _Listing, request: Any) -> None:
        self._listing = listing
        self.request = request

    def answer(self, response: Any) -> None:
        """Take the shard's groups."""
        if response.error_code is not ErrorCode.none:
            self.refuse(CodedError(response.error_code))
        else:
            self._listing.add(response, None)

    def refuse(self, error: KafkaError) -> None:
        """Take the shard's refusal."""
        self._listing.add(None, None if error.code is ErrorCode.not_coordinator else error)
