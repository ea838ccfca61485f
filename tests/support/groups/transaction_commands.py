"""The commands of transcripts about offsets in transactions, for groups of either protocol.

- ``txn-commit a producer=70:0 offset=5 topic=flights``: the client's member commits in the transaction of a producer,
  whose id and epoch are given. If it is answered with a guard, it asks again with this, unless it is told ``once``;
  ``guard=3`` for one of before.
- ``end commit producer=70:1 transaction=2``, or ``end abort``: the coordinator of the transaction ends it.
- ``fetch a``: asks for a stable offset.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kio.index import load_request_schema

from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.transaction_responses import TXN_OFFSET_COMMIT, WRITE_TXN_MARKERS
from tests.support.groups.group_transcripts import Arguments, Command, Options, Scene
from tests.support.groups.transactional_offsets import (
    NEWEST,
    NEWEST_MARKERS,
    Producer,
    markers_request,
    txn_commit_request,
)

Identity = Callable[[Scene, str, Options], Mapping[str, Any]]
"""Returns the fields by which a client's request names its group, member and generation."""


def transaction_commands(identity: Identity) -> Mapping[str, Command]:
    """Return the commands, for clients that are in groups as `identity` says."""

    def txn_commit(scene: Scene, arguments: Arguments, options: Options) -> None:
        version = int(options.get("version", NEWEST))
        named = {**identity(scene, arguments[0], options)}
        places = {(options.get("topic", "flights"), 0): int(options.get("offset", "5"))}
        request = txn_commit_request(_producer(options), named.pop("group_id"), places, version=version, **named)
        guard = int(options["guard"]) if "guard" in options else None
        answered = scene.send(arguments[0], TXN_OFFSET_COMMIT, version, request, verification_guard=guard)
        if answered is not None and "once" not in arguments:
            scene.send(arguments[0], TXN_OFFSET_COMMIT, version, request, verification_guard=answered)

    return {"txn-commit": txn_commit, "end": _end, "fetch": _fetch}


def _producer(options: Options) -> Producer:
    id_, _, epoch = options.get("producer", "70:0").partition(":")
    return Producer(int(id_), int(epoch))


def _end(scene: Scene, arguments: Arguments, options: Options) -> None:
    ends = (_producer(options), arguments == ["commit"])
    request = markers_request(ends, transaction_version=int(options.get("transaction", "2")))
    scene.send("transactions", WRITE_TXN_MARKERS, NEWEST_MARKERS, request)


def _fetch(scene: Scene, arguments: Arguments, _options: Options) -> None:
    version = 7
    topic_type = item_type(load_request_schema(api.OFFSET_FETCH, version), "topics")
    topics = (message_of(topic_type, name="flights", partition_indexes=(0,)),)
    scene.request(arguments[0], api.OFFSET_FETCH, version, group_id="g", topics=topics, require_stable=True)
