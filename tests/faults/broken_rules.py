"""Services with one rule deliberately broken, to show that a trial notices: run in place of the real program.

`python -m tests.faults.broken_rules RULE MODULE ARGUMENT…` imports the service, replaces the rule in it, and runs its
own `main()`; everything else is the real program.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ottla_core.topic_partition import TopicPartition
from tests.faults.mirrors.broken_rules import MIRROR_RULES
from tests.faults.program import main_of
from tests.faults.transactions.broken_rules import TRANSACTION_RULES
from tests.support.replaced_rule import replace_rule


def high_watermark_ignores_the_isr() -> None:
    """The leader takes a record for replicated as soon as it has it itself."""
    from ottla_broker.replica.leader_replica import LeaderReplica  # noqa: PLC0415 - only for the broker

    def high_watermark(_self: LeaderReplica, _current: int, log_end_offset: int, **_rest: Any) -> int:
        return log_end_offset

    replace_rule(LeaderReplica, "high_watermark", high_watermark)
    replace_rule(LeaderReplica, "is_alone", property(lambda _self: True))


def no_truncation() -> None:
    """A follower goes on from its log's end after an election, without asking where the logs part."""
    from ottla_broker.partition import Partition  # noqa: PLC0415 - only for the broker
    from ottla_broker.partition_refusals import NO_EPOCH_GIVEN  # noqa: PLC0415
    from ottla_broker.replica.follower_replica import FetchPosition  # noqa: PLC0415 - only for the broker
    from ottla_broker.replication import truncation  # noqa: PLC0415

    def fetch_position(self: Partition) -> FetchPosition:
        log = self.log
        return FetchPosition(log.log_end_offset, NO_EPOCH_GIVEN, self.state.leader_epoch, log.log_start_offset)

    def keep(_partition: Partition, *_: Any, **_rest: Any) -> None:
        """Cut nothing."""

    replace_rule(Partition, "fetch_position", fetch_position)
    replace_rule(truncation, "truncate_to", keep)


def deposed_controller_not_fenced() -> None:
    """A controller writes without looking at its lease, at who leads, and at what it overwrites."""
    from ottla_controller.fenced_writer import FencedWriter, Write  # noqa: PLC0415 - only for the controller
    from ottla_core.cluster.etcd import operations as op  # noqa: PLC0415
    from ottla_core.cluster.etcd.client import TransactionResult  # noqa: PLC0415

    async def attempt(self: FencedWriter, chunk: Sequence[Write], fence: int) -> TransactionResult:
        operations = [op.delete(w.key) if w.value is None else op.put(w.key, w.value) for w in chunk]
        return await self._etcd.transaction([], operations, [])

    async def move_fence(self: FencedWriter) -> int:
        self._fence = 1
        return 1

    replace_rule(FencedWriter, "_attempt", attempt)
    replace_rule(FencedWriter, "_move_fence", move_fence)


def fetches_beyond_the_high_watermark() -> None:
    """A leader gives consumers what no follower has yet."""
    from ottla_broker.log.partition.read_isolation import ReadIsolation  # noqa: PLC0415 - only for the broker
    from ottla_broker.partition import Partition  # noqa: PLC0415

    read = Partition.read

    def read_to_log_end(self: Partition, offset: int, max_bytes: int, **how: Any) -> Any:
        return read(self, offset, max_bytes, **{**how, "isolation": ReadIsolation.LOG_END})

    replace_rule(Partition, "read", read_to_log_end)


def offsets_of_old() -> None:
    """A broker tells committed offsets as it was told them up to three seconds ago, by whoever was the owner then."""
    import time  # noqa: PLC0415 - only for the broker

    from ottla_broker.groups.relay import GroupRelay  # noqa: PLC0415
    from ottla_core.callback_answer import CallbackAnswer  # noqa: PLC0415

    ask = GroupRelay.ask
    kept: dict[tuple[TopicPartition, bytes], tuple[float, bytes]] = {}
    correlation_id, offset_fetch, kept_s = slice(4, 8), (9).to_bytes(2, "big"), 3.0

    def remember(
        self: GroupRelay, shard: TopicPartition, frame: bytes, client_host: str, finish: Any, **how: Any
    ) -> CallbackAnswer[Any]:
        if bytes(frame[: len(offset_fetch)]) != offset_fetch:
            return ask(self, shard, frame, client_host, finish, **how)
        key = shard, bytes(frame[correlation_id.stop :])
        told_s, told = kept.get(key, (0.0, b""))
        if told and time.monotonic() - told_s < kept_s:
            again = CallbackAnswer[Any]()
            answer = bytearray(told)
            answer[correlation_id] = frame[correlation_id]  # a response has it at the same place as a request
            again.settle(finish(bytes(answer)))
            return again

        def keep(answer: Any) -> Any:
            if isinstance(answer, bytes):
                kept[key] = time.monotonic(), answer
            return finish(answer)

        return ask(self, shard, frame, client_host, keep, **how)

    replace_rule(GroupRelay, "ask", remember)


def records_deleted_on_the_leader_only() -> None:
    """DeleteRecords is answered before any follower has deleted, and followers do not delete."""
    from ottla_broker.handlers import delete_records  # noqa: PLC0415 - only for the broker
    from ottla_broker.partition import Partition  # noqa: PLC0415
    from ottla_broker.replication import leader_fetcher  # noqa: PLC0415
    from ottla_broker.replication.following import append_from_leader  # noqa: PLC0415

    def append(partition: Partition, records: bytes, **told: Any) -> None:
        append_from_leader(partition, records, **{**told, "log_start_offset": partition.log.log_start_offset})

    def low_watermark(self: Any, _broker: Any) -> int:
        return int(self.partition.log.log_start_offset)

    replace_rule(leader_fetcher, "append_from_leader", append)
    replace_rule(delete_records._Deleted, "low_watermark", low_watermark)


def compaction_drops_the_last_value() -> None:
    """Compaction takes the newest record of a key for superseded, like all the others."""
    from ottla_broker.log.cleaning import cleaning_process  # noqa: PLC0415 - only for the broker
    from ottla_broker.log.compaction.offset_map import NO_OFFSET, OffsetMap  # noqa: PLC0415

    get = OffsetMap.get

    def one_later(self: OffsetMap, key: bytes) -> int:
        found = get(self, key)
        return found if found == NO_OFFSET else found + 1

    replace_rule(OffsetMap, "get", one_later)
    worker = program("compaction-drops-the-last-value", "ottla_broker.log.cleaning.cleaning_worker")
    replace_rule(cleaning_process, "_COMMAND", (sys.executable, "-m", *worker))


def no_broker_is_named() -> None:
    """A broker names to clients whoever is registered, be it nobody."""
    from ottla_broker.broker import Broker  # noqa: PLC0415 - only for the broker
    from ottla_core.cluster.state.model import Endpoint, Member  # noqa: PLC0415

    def registered(self: Broker, listener: str) -> list[tuple[Member, Endpoint]]:
        members = self.state.brokers.values()
        return [(member, endpoint) for member in members if (endpoint := self.endpoint(member, listener))]

    replace_rule(Broker, "live_brokers", registered)


def obsolete_epochs_survive() -> None:
    """What was cut off stands in the epochs' file until some later flush, and recovery only adds what that lacks."""
    from collections.abc import Iterable  # noqa: PLC0415

    from ottla_broker.log.files.leader_epoch_checkpoint import EpochRun, LeaderEpochs  # noqa: PLC0415
    from ottla_broker.log.flushing.flush import LogFlush  # noqa: PLC0415 - only for the broker

    def agree_with(self: LeaderEpochs, runs: Iterable[EpochRun]) -> None:
        for run in runs:
            if run.epoch > self.latest:
                self.assign(run.epoch, run.first_offset)

    replace_rule(LeaderEpochs, "agree_with", agree_with)
    replace_rule(LogFlush, "is_settled", property(lambda _self: True))


def failed_fsyncs_are_forgotten() -> None:
    """A broker goes on after an fsync that has failed, as if the next one could make up for it."""
    import os  # noqa: PLC0415

    from ottla_broker.log.files import checkpoint_file  # noqa: PLC0415 - only for the broker
    from ottla_broker.log.flushing import flush_plan  # noqa: PLC0415 - only for the broker

    def sync_descriptor(descriptor: int) -> None:
        os.fsync(descriptor)

    replace_rule(checkpoint_file, "sync_descriptor", sync_descriptor)
    replace_rule(flush_plan, "sync_descriptor", sync_descriptor)


def lapsed_registrations_stay_so() -> None:
    """A process whose lease has run out does not register anew."""
    import asyncio  # noqa: PLC0415

    from ottla_core.cluster.membership.membership import Membership  # noqa: PLC0415

    async def stay_registered(self: Membership) -> None:
        await asyncio.Event().wait()

    replace_rule(Membership, "_stay_registered", stay_registered)


def half_written_batches_stay() -> None:
    """What a refused write has left stands between the batches before and behind it."""
    import os  # noqa: PLC0415

    from ottla_broker.log.segments.segment import LogSegment  # noqa: PLC0415 - only for the broker
    from ottla_broker.log.segments.segment_file import SegmentFile  # noqa: PLC0415

    def keep(self: LogSegment, file: SegmentFile) -> None:
        self.size_bytes = os.fstat(file.fileno()).st_size

    replace_rule(LogSegment, "_cut_back", keep)


def garbage_ends_the_process() -> None:
    """A request that cannot be read is an error that nobody expects."""
    import os  # noqa: PLC0415

    from ottla_broker.connection import Connection  # noqa: PLC0415 - only for the broker

    guarded = Connection._guarded

    def unguarded(self: Connection, take: Callable[[Any], None], received: object) -> None:
        def take_or_die(taken: object) -> None:
            try:
                take(taken)
            except Exception:  # noqa: BLE001 - this is what is broken
                os._exit(1)

        guarded(self, take_or_die, received)

    replace_rule(Connection, "_guarded", unguarded)


def bad_requests_hold_up_the_loop() -> None:
    """Now and then a request that cannot be read costs two seconds of everybody's time."""
    import time  # noqa: PLC0415
    from itertools import count  # noqa: PLC0415

    from ottla_broker.connection import Connection  # noqa: PLC0415 - only for the broker

    close = Connection.close
    turns, slow_share = count(1), 50

    def close_slowly(self: Connection, reason: str = "") -> None:
        if reason.startswith("bad request") and not next(turns) % slow_share:
            end_s = time.thread_time() + 2.0
            while time.thread_time() < end_s:
                pass
        close(self, reason)

    replace_rule(Connection, "close", close_slowly)


def one_acknowledgement_before_the_write() -> None:
    """Of what one replica shall acknowledge, some is acknowledged unwritten."""
    from itertools import count  # noqa: PLC0415

    from ottla_broker.log.appends.append_result import AppendResult  # noqa: PLC0415 - only for the broker
    from ottla_broker.partition import Partition  # noqa: PLC0415

    append = Partition.append
    turns, lost_share = count(1), 50

    def append_mostly(self: Partition, records: bytes | memoryview, **how: Any) -> AppendResult:
        if how["all_in_sync"] or next(turns) % lost_share:
            return append(self, records, **how)
        end_offset = self.log.log_end_offset
        return AppendResult(end_offset, end_offset, -1, self.log.log_start_offset, duplicate=False)

    replace_rule(Partition, "append", append_mostly)


def rights_last_for_ever() -> None:
    """A broker goes on to allow what it has allowed once, whatever the access control lists say by then."""
    from ottla_broker.client_plugins.standard_authorizer import StandardAuthorizer  # noqa: PLC0415 - only for the broker
    from ottla_sdk.broker import AccessRequest  # noqa: PLC0415

    authorize = StandardAuthorizer.authorize
    allowed: set[AccessRequest] = set()

    def authorize_once(self: StandardAuthorizer, request: AccessRequest) -> bool:
        if authorize(self, request):
            allowed.add(request)
        return request in allowed

    replace_rule(StandardAuthorizer, "authorize", authorize_once)


def whoever_signs_tokens_is_believed() -> None:
    """A broker reads what a bearer token says, whatever key has signed it."""
    import base64  # noqa: PLC0415
    import json  # noqa: PLC0415
    from collections.abc import Mapping  # noqa: PLC0415

    from ottla_core.tokens import key_source  # noqa: PLC0415 - only for the broker

    def claims(token: str, _keys: object) -> Mapping[str, Any]:
        payload = token.split(".")[1]
        said: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return said

    replace_rule(key_source, "verified_claims_of", claims)


def what_allows_goes_before_what_denies() -> None:
    """An entry that denies counts only where none allows."""
    from ottla_core.acl_table import AclTable  # noqa: PLC0415 - only for the broker
    from ottla_core.acls import AclBinding, Permission  # noqa: PLC0415

    for_resource = AclTable._for_resource

    def allowing_first(self: AclTable, *resource: Any) -> list[AclBinding]:
        found = list(for_resource(self, *resource))
        allowing = [each for each in found if each.permission is Permission.ALLOW]
        return allowing or found

    replace_rule(AclTable, "_for_resource", allowing_first)


RULES: dict[str, Callable[[], None]] = {
    "high-watermark-ignores-the-isr": high_watermark_ignores_the_isr,
    "no-truncation": no_truncation,
    "deposed-controller-not-fenced": deposed_controller_not_fenced,
    "fetches-beyond-the-high-watermark": fetches_beyond_the_high_watermark,
    "offsets-of-old": offsets_of_old,
    "records-deleted-on-the-leader-only": records_deleted_on_the_leader_only,
    "compaction-drops-the-last-value": compaction_drops_the_last_value,
    "no-broker-is-named": no_broker_is_named,
    "obsolete-epochs-survive": obsolete_epochs_survive,
    "failed-fsyncs-are-forgotten": failed_fsyncs_are_forgotten,
    "lapsed-registrations-stay-so": lapsed_registrations_stay_so,
    "half-written-batches-stay": half_written_batches_stay,
    "garbage-ends-the-process": garbage_ends_the_process,
    "bad-requests-hold-up-the-loop": bad_requests_hold_up_the_loop,
    "one-acknowledgement-before-the-write": one_acknowledgement_before_the_write,
    "rights-last-for-ever": rights_last_for_ever,
    "whoever-signs-tokens-is-believed": whoever_signs_tokens_is_believed,
    "what-allows-goes-before-what-denies": what_allows_goes_before_what_denies,
    **MIRROR_RULES,
    **TRANSACTION_RULES,
}


def program(rule: str, module: str) -> tuple[str, ...]:
    """What Python is to run, after `-m`, instead of a service's module."""
    assert rule in RULES
    return ("tests.faults.broken_rules", rule, module)


def main() -> int:
    rule, module, *arguments = sys.argv[1:]
    RULES[rule]()
    sys.argv = [module, *arguments]
    return main_of(module)()


if __name__ == "__main__":
    sys.exit(main())
