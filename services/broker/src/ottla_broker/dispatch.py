"""The list of every API the broker serves, and the way from a frame to its handler.

`APIS` is the only such list: what is advertised by ApiVersions is derived from it. `OWN_APIS` is not advertised.
An API has a file in `handlers/`; one that a group's coordinator answers as it stands has only its row, with `relay`.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ottla_broker.access import checks, group_checks, transaction_checks
from ottla_broker.access.auditing import audited
from ottla_broker.access.checks import (
    in_handler,
    itself,
    name_field,
    on_cluster,
    on_each,
    on_group,
    open_to_all,
    topic_field,
)
from ottla_broker.access.partial_requests import Check, checked
from ottla_broker.audit.audited_requests import CHANGES
from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Connection
from ottla_broker.group_requests import relay, relay_several
from ottla_broker.groups.split_requests import GroupLists
from ottla_broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    init_producer_id,
    links,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from ottla_broker.long_requests import LONG_FRAME_BYTES, LongRequest
from ottla_broker.outcome import Outcome
from ottla_broker.quotas.charge import Charge
from ottla_broker.request_parts import ItemLists, without_repetitions
from ottla_broker.request_times import ApiTimes
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.errors import InvalidRequest
from ottla_core.slices import started
from ottla_core.wire.group_id import GroupMessage, read_group_id
from ottla_core.wire.links_messages import LINKS_KEY
from ottla_core.wire.messages import (
    API_VERSIONS_KEY,
    MessageCodec,
    RequestHeader,
    api_name,
    message_codec,
    newest_version,
    oldest_version,
    read_request_header,
)
from ottla_core.wire.produce_request import read_produce_request

FETCH_KEY = 1

Handler = Callable[[Broker, Request], Outcome]
Reader = Callable[[memoryview, int, int], Any]
"""Decodes the message of a frame, given where it begins and its version; kio decodes where there is none."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its key, the versions it is served in, its handler, and the check of clients' rights before that.

    `advertised_from` may lie below `oldest`: librdkafka before 2.0 sends uncompressed batches to a broker that does
    not advertise Produce from version 0 on, although it never uses that version (KAFKA-18659).

    What a `reader` reads is handled as a whole, without its frame.

    Where every item of a list is answered on its own, `lists` names the lists of its requests and responses, for
    versions that have them: long requests are then handled in parts, and what is named twice is answered once. A
    handler that `works_in_slices` rests between items by itself, so it takes requests of any length.

    With `keeps_frame` the handler is given the frame as well; it goes on to another process. With `reads_group_id`
    only the group's id is read here, as the process that it goes on to reads it all; long ones are read here too.
    """

    key: int
    handler: Handler
    check: Check
    oldest: int
    newest: int
    advertised_from: int
    reader: Reader | None = None
    keeps_frame: bool = False
    lists: tuple[ItemLists, ...] = ()
    reads_group_id: bool = False
    works_in_slices: bool = False


def _api(
    key: int,
    handler: Handler,
    check: Check,
    *,
    advertised_from: int | None = None,
    reader: Reader | None = None,
    keeps_frame: bool = False,
    lists: Sequence[tuple[str, str]] = (),
    works_in_slices: bool = False,
) -> tuple[int, Api]:
    oldest = oldest_version(key)
    guarded = handler if check in {in_handler, open_to_all} else checked(check, handler)
    return key, Api(
        key,
        audited(guarded) if key in CHANGES else guarded,
        check,
        oldest,
        newest_version(key),
        oldest if advertised_from is None else advertised_from,
        reader,
        keeps_frame,
        tuple(ItemLists(*names) for names in lists),
        works_in_slices=works_in_slices,
    )


def _group_api(key: int, handler: Handler, check: Check, lists: Sequence[tuple[str, str]] = ()) -> tuple[int, Api]:
    """Return the entry of an API whose requests go on to coordinators."""
    return _api(key, handler, check, keeps_frame=True, lists=lists)


def _frequent_group_api(
    key: int, handler: Handler, check: Check, lists: Sequence[tuple[str, str]] = ()
) -> tuple[int, Api]:
    """Return the entry of an API that members use all the time, and whose requests begin with their group's id."""
    return key, replace(_group_api(key, handler, check, lists)[1], reads_group_id=True)


def _several_groups_api(key: int, check: Check, requested: str, answered: str) -> tuple[int, Api]:
    """Return the entry of an API whose requests name several groups; each group's coordinator answers for it.

    Args:
        key: the API's key.
        check: of a client's rights.
        requested: the list of groups in its requests.
        answered: the list of answers in its responses.
    """
    handler = partial(relay_several, lists=GroupLists(requested=requested, answered=answered))
    return _group_api(key, handler, check, [(requested, answered)])


APIS: Mapping[int, Api] = dict(
    [
        _api(0, produce.handle, in_handler, advertised_from=0, reader=read_produce_request),
        _api(FETCH_KEY, fetch.handle, in_handler),
        _api(
            2,
            list_offsets.handle,
            on_each("topics", AclOperation.DESCRIBE, ResourceKind.TOPIC, name_field),
            lists=[("topics", "topics")],
        ),
        _api(3, metadata.handle, in_handler, works_in_slices=True),
        _frequent_group_api(8, relay, group_checks.offset_commit, [("topics", "topics")]),  # OffsetCommit
        _group_api(9, offset_fetch.handle, group_checks.offset_fetch, [("groups", "groups"), ("topics", "topics")]),
        _api(10, find_coordinator.handle, in_handler, lists=[("coordinator_keys", "coordinators")]),
        _group_api(11, relay, on_group(AclOperation.READ)),  # JoinGroup
        _frequent_group_api(12, relay, on_group(AclOperation.READ)),  # Heartbeat
        _group_api(13, relay, on_group(AclOperation.READ), [("members", "members")]),  # LeaveGroup
        _group_api(14, relay, on_group(AclOperation.READ)),  # SyncGroup
        _several_groups_api(15, group_checks.describe_groups, "groups", "groups"),  # DescribeGroups
        _group_api(16, list_groups.handle, in_handler),
        _api(17, sasl_handshake.handle, open_to_all),
        _api(
            API_VERSIONS_KEY, lambda broker, request: api_versions.handle(broker, request, APIS.values()), open_to_all
        ),
        _api(19, create_topics.handle, checks.create_topics),
        _api(20, delete_topics.handle, in_handler),
        _api(
            21,
            delete_records.handle,
            on_each("topics", AclOperation.DELETE, ResourceKind.TOPIC, name_field),
            lists=[("topics", "topics")],
        ),
        _group_api(22, init_producer_id.handle, transaction_checks.init_producer_id),
        _api(
            23,
            offset_for_leader_epoch.handle,
            on_each(
                "topics",
                AclOperation.DESCRIBE,
                ResourceKind.TOPIC,
                topic_field,
                on_cluster_instead=AclOperation.CLUSTER_ACTION,
            ),
            lists=[("topics", "topics")],
        ),
        _group_api(24, add_partitions_to_txn.handle, in_handler),
        _group_api(25, add_offsets_to_txn.handle, transaction_checks.add_offsets_to_txn),
        _group_api(26, end_txn.handle, transaction_checks.end_txn),
        _api(27, write_txn_markers.handle, on_cluster(AclOperation.CLUSTER_ACTION, AclOperation.ALTER)),
        _group_api(28, txn_offset_commit.handle, in_handler, [("topics", "topics")]),
        _api(29, describe_acls.handle, on_cluster(AclOperation.DESCRIBE)),
        _api(30, create_acls.handle, on_cluster(AclOperation.ALTER)),
        _api(31, delete_acls.handle, on_cluster(AclOperation.ALTER)),
        _api(
            32,
            describe_configs.handle,
            checks.configs(AclOperation.DESCRIBE_CONFIGS),
            lists=[("resources", "results")],
        ),
        _api(33, alter_configs.handle, checks.configs(AclOperation.ALTER_CONFIGS)),
        _api(34, alter_replica_log_dirs.handle, on_cluster(AclOperation.ALTER)),
        _api(35, describe_log_dirs.handle, on_cluster(AclOperation.DESCRIBE)),
        _api(36, sasl_authenticate.handle, open_to_all),
        _api(
            37,
            create_partitions.handle,
            on_each("topics", AclOperation.ALTER, ResourceKind.TOPIC, name_field),
        ),
        _api(38, create_delegation_token.handle, in_handler),
        _api(39, renew_delegation_token.handle, open_to_all),
        _api(40, expire_delegation_token.handle, open_to_all),
        _api(41, describe_delegation_token.handle, in_handler),
        _several_groups_api(
            42, on_each("groups_names", AclOperation.DELETE, ResourceKind.GROUP, itself), "groups_names", "results"
        ),  # DeleteGroups
        _api(43, elect_leaders.handle, on_cluster(AclOperation.ALTER)),
        _api(44, incremental_alter_configs.handle, checks.configs(AclOperation.ALTER_CONFIGS)),
        _api(45, alter_partition_reassignments.handle, on_cluster(AclOperation.ALTER)),
        _api(
            46,
            list_partition_reassignments.handle,
            on_cluster(AclOperation.DESCRIBE),
            lists=[("topics", "topics")],
        ),
        _group_api(47, relay, group_checks.offset_delete, [("topics", "topics")]),  # OffsetDelete
        _api(48, describe_client_quotas.handle, on_cluster(AclOperation.DESCRIBE_CONFIGS)),
        _api(49, alter_client_quotas.handle, on_cluster(AclOperation.ALTER_CONFIGS)),
        _api(50, describe_user_scram_credentials.handle, on_cluster(AclOperation.DESCRIBE)),
        _api(51, alter_user_scram_credentials.handle, on_cluster(AclOperation.ALTER)),
        _api(55, describe_quorum.handle, on_cluster(AclOperation.DESCRIBE)),
        _api(57, update_features.handle, on_cluster(AclOperation.ALTER)),
        _api(60, describe_cluster.handle, in_handler),
        _api(
            61,
            describe_producers.handle,
            on_each("topics", AclOperation.READ, ResourceKind.TOPIC, name_field),
            lists=[("topics", "topics")],
        ),
        _api(64, unregister_broker.handle, on_cluster(AclOperation.ALTER)),
        _group_api(
            65,
            describe_transactions.handle,
            transaction_checks.describe_transactions,
            [("transactional_ids", "transaction_states")],
        ),
        _group_api(66, list_transactions.handle, in_handler),
        _frequent_group_api(68, relay, group_checks.consumer_group_heartbeat),  # ConsumerGroupHeartbeat
        _several_groups_api(69, group_checks.consumer_group_describe, "group_ids", "groups"),  # ConsumerGroupDescribe
        _api(71, get_telemetry_subscriptions.handle, open_to_all),
        _api(72, push_telemetry.handle, open_to_all),
        _api(74, list_config_resources.handle, on_cluster(AclOperation.DESCRIBE_CONFIGS)),
        _api(75, describe_topic_partitions.handle, in_handler),
    ]
)


OWN_APIS: Mapping[int, Api] = dict([_api(LINKS_KEY, links.handle, in_handler)])
"""What only Ottla's own programs ask for; not advertised, so that no client of others has to bear it."""


class Dispatcher:
    """Decodes frames and calls handlers.

    Attributes:
        times: how many requests of each API have come, and how long they took, by API key.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._quotas = broker.quotas
        shown = broker.config.shows_metrics
        self.times: Mapping[int, ApiTimes] = {key: ApiTimes(are_shown=shown) for key in (*APIS, *OWN_APIS)}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="long requests")

    def handle(  # noqa: PLR0912 - one more call would cost every request
        self, frame: memoryview, connection: Connection
    ) -> Outcome:
        """Handle one frame.

        Raises:
            InvalidRequest: the frame is no request this broker can answer; close the connection.
        """
        header = read_request_header(frame)
        if self._quotas.are_on:
            if connection.charge is not None:
                connection.charge.header = header
            elif self._quotas.take(connection, header, len(frame)):
                return self._handle_charged(frame, header, connection)
        api = APIS.get(header.api_key) or OWN_APIS.get(header.api_key)
        if api is None:
            raise InvalidRequest(f"unknown API key {header.api_key}")
        if not api.oldest <= header.api_version <= api.newest:
            if api.key == API_VERSIONS_KEY:
                return api_versions.unsupported(header, APIS.values())
            raise InvalidRequest(f"unsupported version {header.api_version} of {api_name(api.key)}")
        codec = message_codec(api.key, header.api_version)
        times = self.times[api.key]
        times.count += 1
        if times.count >= times.due:
            connection.measured = times.measure()
        if connection.delayed and api.key != FETCH_KEY:  # two fetches that hurried each other would never wait
            for delayed in tuple(connection.delayed):
                delayed.hurry()
        if api.reader is not None:
            message = api.reader(frame, codec.body_offset(frame, header), header.api_version)
            return api.handler(self._broker, Request(header, message, codec, connection))
        if len(frame) >= LONG_FRAME_BYTES:
            return started(self._long_request(frame, header, api, codec, connection).handle(self._thread))
        if api.reads_group_id:
            group_id = read_group_id(frame, codec.body_offset(frame, header), flexible=codec.flexible)
            message = GroupMessage(group_id)
        else:
            message = codec.read_request(frame, header)
            if api.lists:
                message = without_repetitions(message, api.lists)
        kept = bytes(frame) if api.keeps_frame else b""
        return api.handler(self._broker, Request(header, message, codec, connection, kept))

    def _handle_charged(self, frame: memoryview, header: RequestHeader, connection: Connection) -> Outcome:
        """Handle one frame, and have its client pay for it."""
        charge = connection.charge = Charge(self._quotas, connection, header)
        try:
            return charge.follow(self.handle(frame, connection))
        finally:
            charge.settle()
            connection.charge = None

    def _long_request(
        self, frame: memoryview, header: RequestHeader, api: Api, codec: MessageCodec, connection: Connection
    ) -> LongRequest:
        return LongRequest(
            self._broker,
            bytes(frame),
            header,
            codec,
            connection,
            api.handler,
            api.lists,
            api.keeps_frame,
            api.works_in_slices,
        )

    def close(self) -> None:
        """End the thread; what it still has to do is done for nobody."""
        self._thread.shutdown(wait=False, cancel_futures=True)
