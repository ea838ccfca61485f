"""Writing a cluster's state into an etcd that has none, so that nobody goes by a part of it.

First comes the marker of an unfinished recovery: brokers do not start and controllers do not campaign while it is
there. Then the writer takes the election key, under a lease of its own: no controller can lead meanwhile, and one
that believes that it leads cannot write, as every transaction compares the key. The marker and the cluster id are
written in one transaction, then everything else, and last the marker of the finished recovery. A writer that ends in
between leaves the first marker; the next one deletes what was written and begins anew.

etcd has to be empty, or to have nothing but what processes write that start on an empty one: a cluster id of their
own, levels of features, their registrations. Those have drawn another cluster id, find it replaced, and end.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from ottla.recover.merging import RecoveryPlan
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient, Listing, TransactionResult
from ottla_core.cluster.etcd.connection import RETRY_DELAY_S
from ottla_core.cluster.etcd.errors import EtcdError, WriteOutcomeUnknown
from ottla_core.cluster.etcd.lease import LeaseSession
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import encode_controller
from ottla_core.cluster.state.keys import KeySpace, MemberKey
from ottla_core.cluster.state.model import Recovery, Role
from ottla_core.cluster.state.state_copy import CLUSTER_ID_KEY, RECOVERY_KEY, is_lasting
from ottla_core.errors import OttlaError
from ottla_proto.gen.etcd.rpc_pb2 import RequestOp

LEASE_TTL_MS = 10_000
OPERATIONS_PER_TRANSACTION = 100
BYTES_PER_TRANSACTION = 512 * 1024
"""etcd takes 1.5 MB by default."""
ATTEMPTS_MAX = 100
"""How often a transaction without an answer is repeated, with a short pause."""
NOBODY = -1
"""The id of a controller that is none, in the election key of a writer."""

Progress = Callable[[int, int], None]
"""Told how many keys of how many are written."""


class EtcdInUse(OttlaError):
    """etcd has a cluster's state already, or a cluster runs on it."""


class WriterDisplaced(OttlaError):
    """The election key is another's by now; nothing more was written."""


def check_target(listing: Listing, prefix: str) -> bool:
    """See that a cluster's state may be written below a prefix; return whether an unfinished one is there.

    Raises:
        EtcdInUse: there is something that must not be replaced.
    """
    keys = KeySpace(prefix.removeprefix("/ottla/").removesuffix("/"))
    found = {entry.key[len(prefix) :]: entry for entry in listing.entries}
    brokers = [
        parsed.id for key in found if isinstance(parsed := keys.parse(prefix + key), MemberKey)
        and parsed.role is Role.BROKER
    ]  # fmt: skip
    if brokers:
        raise EtcdInUse(
            f"brokers are registered in this etcd: {', '.join(map(str, sorted(brokers)))}. Stop all processes of the "
            "cluster; after a crash their registrations go within some seconds"
        )
    marker = found.get(RECOVERY_KEY)
    if marker is not None and codec.decode_recovery(marker.value).is_unfinished:
        return True
    fresh = {CLUSTER_ID_KEY, "features"}
    state = sorted(key for key in found if is_lasting(key) and key not in fresh)
    if state:
        raise EtcdInUse(
            f"this etcd has the state of a cluster already, for example {prefix}{state[0]}; nothing is lost there. "
            "Use an empty etcd, or another --cluster-name"
        )
    return False


async def write_state(etcd: EtcdClient, plan: RecoveryPlan, on_progress: Progress | None = None) -> None:
    """Write the state of a plan into etcd.

    Raises:
        EtcdInUse: etcd has a cluster's state already, or a cluster runs on it.
        WriterDisplaced: somebody else has taken the election key.
        EtcdError: etcd cannot be reached or refuses.
    """
    prefix = KeySpace(plan.cluster_name).prefix
    unfinished = codec.encode_recovery(Recovery(number=plan.recovery.number, is_unfinished=True))
    await _mark(etcd, prefix, unfinished)
    session = LeaseSession(etcd, ttl_ms=LEASE_TTL_MS)
    await session.start()
    try:
        writer = await _Writer.begin(etcd, prefix, session)
        # Nobody else can change the state from here on.
        listing = await etcd.list_prefix(prefix)
        await writer.write_plan(plan, unfinished, listing, on_progress or (lambda _done, _total: None))
    finally:
        await session.close()


async def _mark(etcd: EtcdClient, prefix: str, unfinished: bytes) -> None:
    """Say that a recovery is under way, if etcd has nothing that must not be replaced; controllers campaign no more.

    Raises:
        EtcdInUse: it has.
        WriterDisplaced: processes keep registering.
    """
    for _ in range(ATTEMPTS_MAX):
        listing = await etcd.list_prefix(prefix)
        check_target(listing, prefix)
        with contextlib.suppress(WriteOutcomeUnknown):
            nothing_new = op.none_created_after(prefix, listing.revision)
            if (await etcd.transaction([nothing_new], [op.put(prefix + RECOVERY_KEY, unfinished)])).succeeded:
                return
        await asyncio.sleep(RETRY_DELAY_S)
    raise WriterDisplaced("processes keep registering in this etcd; stop them and run this again")


class _Writer:
    """Writes under the election key, which it holds.

    Attributes:
        fence: mod revision of that key.
    """

    def __init__(self, etcd: EtcdClient, prefix: str, fence: int) -> None:
        self._etcd = etcd
        self._prefix = prefix
        self.fence = fence

    @classmethod
    async def begin(cls, etcd: EtcdClient, prefix: str, session: LeaseSession) -> "_Writer":
        """Take the election key, also from its holder."""
        key = prefix + "controller"
        for _ in range(ATTEMPTS_MAX):
            holder = await etcd.read(key)
            lease = await session.valid_lease()
            if holder is not None and holder.lease_id == lease.id:
                return cls(etcd, prefix, holder.mod_revision)
            # Deleted and made anew, so that its former holder does not take it for its own.
            operations = [op.put(key, encode_controller(NOBODY, ""), lease.id)]
            compare = op.modified_at(key, op.ABSENT if holder is None else holder.mod_revision)
            if holder is not None:
                operations = [op.delete(key)]
            with contextlib.suppress(WriteOutcomeUnknown):
                result = await etcd.transaction([compare], operations)
                if result.succeeded and holder is None:
                    return cls(etcd, prefix, result.revision)
                if result.succeeded:
                    continue
            await asyncio.sleep(RETRY_DELAY_S)
        raise WriterDisplaced("controllers keep taking the election key; stop them and run this again")

    async def write_plan(
        self, plan: RecoveryPlan, unfinished: bytes, listing: Listing, on_progress: Progress
    ) -> None:
        """Write the first marker once more, now with the cluster id, then everything else, then the last marker."""
        await self._write(
            [
                self._put(RECOVERY_KEY, unfinished),
                self._put(CLUSTER_ID_KEY, plan.entries[CLUSTER_ID_KEY]),
            ]
        )
        kept = {RECOVERY_KEY, CLUSTER_ID_KEY}
        former = [entry.key for entry in listing.entries if is_lasting(entry.key[len(self._prefix) :])]
        for chunk in _chunks({key: b"" for key in former if key[len(self._prefix) :] not in kept}):
            await self._write([op.delete(key) for key in chunk])
        done = 0
        for part in _chunks({key: value for key, value in plan.entries.items() if key not in kept}):
            await self._write([self._put(key, plan.entries[key]) for key in part])
            done += len(part)
            on_progress(done, len(plan.entries) - len(kept))
        await self._write(
            [self._put(RECOVERY_KEY, codec.encode_recovery(plan.recovery)), op.delete(self._prefix + "controller")]
        )

    def _put(self, key: str, value: bytes) -> RequestOp:
        return op.put(self._prefix + key, value)

    async def _write(self, operations: Sequence[RequestOp]) -> TransactionResult:
        """Carry out operations if the election key is still ours; to repeat them changes nothing more."""
        for _ in range(ATTEMPTS_MAX):
            try:
                result = await self._etcd.transaction(
                    [op.modified_at(self._prefix + "controller", self.fence)],
                    operations,
                    [op.read(self._prefix + RECOVERY_KEY)],
                )
            except WriteOutcomeUnknown:
                await asyncio.sleep(RETRY_DELAY_S)
                continue
            if result.succeeded or self._is_finished(result, operations):
                return result
            raise WriterDisplaced(
                "the election key was taken over while the state was written; run this again, which begins anew"
            )
        raise EtcdError("etcd does not answer; run this again, which begins anew")

    def _is_finished(self, result: TransactionResult, operations: Sequence[RequestOp]) -> bool:
        """Return whether the last transaction was carried out, although its answer was lost."""
        marker = result.reads[0]
        first = operations[0].request_put
        return (
            marker is not None
            and first.key.decode() == marker.key
            and first.value == marker.value
            and not codec.decode_recovery(marker.value).is_unfinished
        )


def _chunks(entries: Mapping[str, bytes]) -> list[list[str]]:
    """Return the keys in order, as many at a time as a transaction takes."""
    chunks: list[list[str]] = []
    size_bytes = 0
    for key, value in entries.items():
        size_bytes += len(key) + len(value)
        if not chunks or len(chunks[-1]) >= OPERATIONS_PER_TRANSACTION or size_bytes > BYTES_PER_TRANSACTION:
            chunks.append([])
            size_bytes = len(key) + len(value)
        chunks[-1].append(key)
    return chunks
