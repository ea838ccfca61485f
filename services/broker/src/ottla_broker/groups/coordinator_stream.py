"""The stream to one coordinator, opened again whenever it breaks, for as long as the coordinator is registered.

Requests are passed on while the stream is open, in a session of its own each time. While it is not, they are refused
rather than kept: clients repeat them, and by then another coordinator may own their group.
"""

import asyncio
from typing import TYPE_CHECKING

import structlog
from grpc import aio

from ottla_broker.groups.relay_session import RelaySession, WriteMarkers
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_broker.groups.topic_rights import TopicRights
from ottla_core.background import start_detached, start_recurring
from ottla_core.cluster.state.model import Member
from ottla_core.rpc.dialing import dial
from ottla_core.rpc.frame_queue import MESSAGE_BYTES_MAX
from ottla_core.rpc.group_relay import BROKER_EPOCH_METADATA, BROKER_ID_METADATA
from ottla_core.rpc.peer_problems import PeerProblems
from ottla_core.rpc.status import described
from ottla_core.rpc_identity import GROUP_COORDINATOR, RpcIdentity
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from ottla_proto.gen.ottla.group_relay_pb2_grpc import GroupRelayStub

if TYPE_CHECKING:
    from ottla_core.rpc.tls import RpcTls

BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 1.0

Call = aio.StreamStreamCall[pb.Frames, pb.Frames]

logger = structlog.get_logger("groups")


class CoordinatorStream:
    """The stream to a coordinator under one of its registrations, opened under one of this broker's.

    Attributes:
        coordinator: whom it leads to.
        broker_epoch: the epoch of this broker that the coordinator is told.
        session: the exchange over the stream, or None while it is not open.
    """

    def __init__(
        self,
        coordinator: Member,
        broker_id: int,
        broker_epoch: int,
        shard_log: ShardLogAccess,
        *,
        tls: "RpcTls | None" = None,
        topic_rights: TopicRights | None = None,
        write_markers: WriteMarkers | None = None,
    ) -> None:
        self._write_markers = write_markers
        self.coordinator = coordinator
        self._topic_rights = topic_rights
        self.broker_epoch = broker_epoch
        self.session: RelaySession | None = None
        self._broker_id = broker_id
        self._shard_log = shard_log
        self._tls = tls
        self._peer = RpcIdentity(GROUP_COORDINATOR, coordinator.id)
        self._problems = PeerProblems(tls)
        self._ended_count = 0
        self._task = start_recurring("group relay", self._run, coordinator=coordinator.id)

    @property
    def relayed_count(self) -> int:
        """Requests passed on, over all sessions."""
        return self._ended_count + (self.session.relayed_count if self.session is not None else 0)

    def stop(self) -> None:
        """Close the stream; what waits for an answer has failed when this returns. `closed` says when all is done."""
        self._end_session(f"group coordinator {self.coordinator.id} is gone")
        self._task.cancel()

    async def closed(self) -> None:
        """Wait until a stopped stream has let go of everything."""
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff_s = BACKOFF_SECONDS_MIN
        while True:
            if await self._serve_newest_channel():
                backoff_s = BACKOFF_SECONDS_MIN
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_SECONDS_MAX)

    async def _serve_newest_channel(self) -> bool:
        """Open a channel, with the certificate of the moment, and a stream; return whether that was open at all."""
        address = self.coordinator.rpc_address
        async with dial(address, self._peer, tls=self._tls, message_bytes_max=MESSAGE_BYTES_MAX) as channel:
            return await self._serve(
                GroupRelayStub(channel).Relay(
                    metadata=(
                        (BROKER_ID_METADATA, str(self._broker_id)),
                        (BROKER_EPOCH_METADATA, str(self.broker_epoch)),
                    )
                )
            )

    async def _serve(self, call: Call) -> bool:
        """Exchange frames until the stream ends; return whether it was open at all."""
        coordinator, was_open, sending = self.coordinator, False, None
        reason = "the coordinator has ended the stream"
        try:
            await call.wait_for_connection()
            session = self.session = RelaySession(self._shard_log, self._topic_rights, self._write_markers)
            was_open = True
            logger.info("connected to a group coordinator", id=coordinator.id, address=coordinator.rpc_address)
            sending = start_detached("group relay sending", _send(session, call))
            async for frames in call:
                session.receive(frames)
        except aio.AioRpcError as error:
            reason = described(error)
            self._problems.note_failure(coordinator.rpc_address, self._peer, error)
        except asyncio.CancelledError:
            if not call.cancelled() or self._task.cancelling():
                raise
        except Exception:
            logger.exception("the stream to a group coordinator failed unexpectedly", id=coordinator.id)
        finally:
            call.cancel()
            if sending is not None:
                sending.cancel()
            self._end_session(f"the connection to group coordinator {coordinator.id} broke: {reason}")
        log = logger.warning if was_open else logger.debug
        log("not connected to a group coordinator", id=coordinator.id, reason=reason)
        return was_open

    def _end_session(self, reason: str) -> None:
        session, self.session = self.session, None
        if session is not None:
            self._ended_count += session.relayed_count
            session.end(reason)


async def _send(session: RelaySession, call: Call) -> None:
    """Write what is queued; ends the call when that is no longer possible."""
    try:
        while True:
            await call.write(await session.outgoing.take())
    except (aio.AioRpcError, asyncio.InvalidStateError):
        pass  # the call is over, and reading from it says why
    except Exception:
        logger.exception("cannot write to a group coordinator")
        call.cancel()
