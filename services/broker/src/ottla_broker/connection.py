"""One client's connection: frames in, responses out, in request order, within bounds.

The connection works on a channel (`channel.py`) that the event loop watches, without asyncio's transports: record
data leaves through `sendfile`, which a transport cannot interleave with its own buffer (see `UnsentResponses`).

Reading: a read goes into the listener's shared buffer, and complete frames are handled right there; the rest of a
frame that did not fit goes into a `PartialFrame`. Each request takes a `Reply` slot in a queue. Handlers may answer
at once or later, and pipelined requests are handled side by side; the responses leave from the head of the queue.

Bounds: a connection stops reading while a response waits for a slow reader, while `PIPELINED_REQUESTS_MAX`
requests are unanswered, while a request is handled in slices (`ottla_core.slices`), and while the broker's budget
for arriving frames is spent. A peer that lets more than `UNSENT_BYTES_MAX` of responses come together is given up.
Bytes that are no Kafka request close the connection with one log line and do nothing else.
"""

import asyncio
import functools
import math
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from ottla_broker.channel import Channel
from ottla_broker.connection_owner import ConnectionOwner, Gate
from ottla_broker.outcome import Answer, Delayed, Outcome, Reply
from ottla_broker.quotas.charge import Charge
from ottla_broker.quotas.client_quotas import Meters
from ottla_broker.receive_buffer import UNRESERVED_FRAME_BYTES, PartialFrame
from ottla_broker.request_times import MeasuredRequest, now_ns
from ottla_broker.unsent_responses import UnsentResponses
from ottla_core.background import ensure_awaited, note_failure
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.errors import InvalidRequest
from ottla_core.failure_log import reason_for_log
from ottla_core.principal import ANONYMOUS, Principal
from ottla_core.slices import Unfinished

PIPELINED_REQUESTS_MAX = 128
FRAMES_AT_ONCE_MAX = 64
"""How many requests of one connection are handled before the others have their turn; a read may bring thousands."""
GATHERED_BYTES_MAX = 256 * 1024
"""How much may come together in memory before it is sent; a peer that does not read stops here."""
UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""How much of several responses a peer may leave unread: those to requests that were under way when it stopped."""

TLS_HANDSHAKE = 0x1603
"""What a client's first bytes begin with that speaks TLS: the type of the record and the version."""

_LENGTH = struct.Struct(">i")

logger = structlog.get_logger("connection")


class Connection:
    """A client's connection.

    Attributes:
        address: the client's host.
        client_software: name and version of the client, as it says them in ApiVersions (KIP-511); None until then.
        peer: the client's host and port, for logs.
        listener_name: through which listener the client came.
        principal: who the client is; `ANONYMOUS` until it has logged in, where it has to.
        is_token_authenticated: whether a delegation token proved it.
        gate: what stands before its requests; None where all may pass.
        delayed: the requests that hold back the responses behind them and need not.
        last_active: when bytes last moved, by the loop's clock.
        topic_rights: what `authorization` remembers of the topics that the client may write to and read.
        measured: what measures the request that is being handled, if it is measured.
        meters: of what the client uses, as it was last looked up.
        charge: what the request that is being handled costs the client; None where no client has a quota.
        is_closed: whether either side has closed it.
    """

    __slots__ = (
        "__weakref__",
        "_alone",
        "_channel",
        "_charged",
        "_fd",
        "_held",
        "_loop",
        "_owner",
        "_partial",
        "_read_ns",
        "_reading",
        "_receives_ahead",
        "_replies",
        "_reported_bytes",
        "_throttle_timer",
        "_throttled_until",
        "_unsent",
        "_waiting",
        "_waits_for_budget",
        "_writing",
        "address",
        "charge",
        "client_software",
        "delayed",
        "gate",
        "is_closed",
        "is_token_authenticated",
        "last_active",
        "listener_name",
        "measured",
        "meters",
        "peer",
        "principal",
        "topic_rights",
    )

    def __init__(
        self,
        channel: Channel,
        peer: tuple[str, int],
        listener_name: str,
        owner: ConnectionOwner,
        loop: asyncio.AbstractEventLoop,
        *,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self._channel = channel
        self._receives_ahead = channel.receives_ahead
        self._fd = channel.fileno()
        self._owner = owner
        self._loop = loop
        self.address = peer[0]
        self.client_software: tuple[str | None, str | None] = (None, None)
        self.peer = f"{peer[0]}:{peer[1]}"
        self.listener_name = listener_name
        self.principal = principal
        self.is_token_authenticated = False
        self.gate: Gate | None = None
        self.delayed: set[Delayed] = set()
        self.last_active = loop.time()
        self.topic_rights: object | None = None
        self.measured: MeasuredRequest | None = None
        self.charge: Charge | None = None
        self.meters: Meters | None = None
        self._throttled_until = 0.0
        self._throttle_timer: asyncio.TimerHandle | None = None
        self.is_closed = False
        self._read_ns = 0
        self._held = b""
        self._partial: PartialFrame | None = None
        self._replies: deque[Reply] = deque()
        self._waiting: set[asyncio.Future[Answer | Awaitable[Answer]]] = set()
        self._unsent = UnsentResponses(channel)
        self._reported_bytes = 0
        self._alone: asyncio.Future[Answer | Awaitable[Answer]] | None = None
        self._charged: PartialFrame | None = None
        self._waits_for_budget = False
        self._writing = False
        self._reading = True
        loop.add_reader(self._fd, self._on_readable)

    @property
    def is_idle(self) -> bool:
        """Whether the client waits for nothing: no request of its is unanswered."""
        return not self._replies and not self._unsent.parts

    @property
    def is_in_mid_request(self) -> bool:
        """Whether a request has begun to arrive and the rest of it is awaited."""
        return not self._throttled_until and (self._partial is not None or bool(self._held and self._reading))

    @property
    def is_throttled_in_mid_request(self) -> bool:
        """Whether a large request has begun to arrive, and the rest is not read as the client is throttled."""
        partial = self._partial
        return self._throttled_until > 0 and partial is not None and partial.size > UNRESERVED_FRAME_BYTES

    @property
    def is_unread(self) -> bool:
        """Whether responses wait for the peer to read."""
        return self._writing

    @property
    def sent_bytes(self) -> int:
        """What the channel took since the connection was accepted."""
        return self._unsent.sent_bytes

    @property
    def unsent_bytes(self) -> int:
        """Of the responses that wait to be sent, what is in memory and not in files."""
        return self._unsent.size_bytes

    def falls_behind(self, now: float, window_s: float, bytes_per_second_min: float) -> bool:
        """Return whether a large request that has begun arrives too slowly, though nothing here holds it up."""
        partial = self._partial
        if partial is None or partial.size <= UNRESERVED_FRAME_BYTES:
            return False
        if not self._reading:
            partial.restart_window(now)
            return False
        return partial.falls_behind(now, window_s, bytes_per_second_min)

    def close(self, reason: str = "") -> None:
        """Close the connection; a reason is logged. Requests still being handled are cancelled."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        for waiting in list(self._waiting):
            waiting.cancel()
        for reply in self._replies:
            if reply.later is not None:
                reply.later.abandon()
        if self._partial is not None:
            self._end_partial(self._partial)
        if self._charged is not None:
            self._end_partial(self._charged)
        self._replies.clear()
        self._unsent.clear()
        self._report_unsent()
        self._held = b""
        self._channel.close()
        self._owner.on_closed(self)
        if reason:
            logger.info("connection closed", peer=self.peer, reason=reason_for_log(reason))

    @property
    def throttle_ms(self) -> int:
        """For how many milliseconds nothing is going to be read, as the client is above a quota."""
        if not self._throttled_until:
            return 0
        return max(0, math.ceil((self._throttled_until - self._loop.time()) * 1000))

    def throttle(self, throttle_ms: int) -> None:
        """Read nothing for so long, and handle nothing of what was read already."""
        until = self._loop.time() + throttle_ms / 1000
        if self.is_closed or until <= self._throttled_until:
            return
        self._throttled_until = until
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._throttle_timer = self._loop.call_at(until, self._end_throttle)
        self._set_reading(False)

    def _end_throttle(self) -> None:
        self._throttled_until, self._throttle_timer = 0.0, None
        self.last_active = self._loop.time()
        self.resume()

    def resume(self) -> None:
        """Go on with what was received before reading had to stop, then read again."""
        if self.is_closed or self._is_blocked:
            return
        self._waits_for_budget = False
        held, self._held = self._held, b""
        if held:
            self._guarded(self._take_frames, memoryview(held))
        if not self.is_closed and not self._is_blocked and not self._waits_for_budget:
            self._set_reading(True)

    # Reading

    @property
    def _is_blocked(self) -> bool:
        """Whether what the client asked for before must first be handled, or read by it."""
        return (
            self._writing
            or self._alone is not None
            or len(self._replies) >= PIPELINED_REQUESTS_MAX
            or self._throttled_until > 0
        )

    def _set_reading(self, wanted: bool) -> None:
        if wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            self._loop.add_reader(self._fd, self._on_readable)
            if self._receives_ahead:
                self._loop.call_soon(self.look_again)
        else:
            self._loop.remove_reader(self._fd)

    def look_again(self) -> None:
        """Take what the channel has received already, of which the event loop does not tell."""
        if self._reading and not self.is_closed:
            self._on_readable()

    def _on_readable(self) -> None:
        partial = self._partial
        if partial is None:
            buffer = self._owner.shared_buffer
            if self._held:
                self._continue_length_prefix(buffer)
            elif count := self._receive(buffer):
                self._guarded(self._take_frames, buffer[:count])
        elif partial.must_grow and not self._owner.budget.reserve(partial, partial.buffer_bytes):
            self._set_reading(False)
            self._wait_for_budget()
        elif self._receive(partial.free_space()):
            self._guarded(self._continue_frame, partial)

    def _continue_length_prefix(self, buffer: memoryview) -> None:
        """Read behind what is held: the beginning of a length prefix, at most three bytes."""
        held = len(self._held)
        buffer[:held] = self._held
        if count := self._receive(buffer[held:]):
            self._held = b""
            self._guarded(self._take_frames, buffer[: held + count])

    def _receive(self, target: memoryview) -> int | None:
        """Read into `target`; return the count, None if there was nothing, 0 if the connection has ended."""
        try:
            count = self._channel.receive_into(target)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            count = 0
        if count == 0:
            self.close()
            return 0
        self.last_active = self._loop.time()
        self._read_ns = now_ns()
        if self._partial is not None:
            self._partial.received += count
        if self._receives_ahead and self._channel.has_received:
            self._loop.call_soon(self.look_again)
        return count

    def _guarded(self, take: Callable[[Any], None], received: object) -> None:
        """Handle received bytes; garbage closes this connection and disturbs nobody else."""
        try:
            take(received)
        except InvalidRequest as error:
            self._flush()
            self.close(f"bad request: {error.message}")
        except Exception:  # a bug of ours must not take the other connections down
            logger.exception("a request failed unexpectedly", peer=self.peer)
            self.close("a request failed unexpectedly")
        else:
            self._flush()

    def _take_frames(self, received: memoryview) -> None:
        """Handle the complete frames of what was received and set the rest aside."""
        start, end = 0, len(received)
        taken = 0
        while end - start >= _LENGTH.size:
            if (
                len(self._replies) + len(self._unsent.parts) >= PIPELINED_REQUESTS_MAX
                or self._unsent.size_bytes >= GATHERED_BYTES_MAX
            ):
                self._flush()
            if self.is_closed:
                return
            if self._is_blocked or taken == FRAMES_AT_ONCE_MAX:
                self._hold(received[start:])
                return
            taken += 1
            (size,) = _LENGTH.unpack_from(received, start)
            self._check_size(size)
            frame_end = start + _LENGTH.size + size
            if frame_end > end:
                self._begin_frame(size, received[start:])
                return
            self._handle(received[start + _LENGTH.size : frame_end].toreadonly())
            start = frame_end
        self._held = bytes(received[start:])

    def _check_size(self, size: int) -> None:
        limit, setting = self._owner.request_bytes_max, "socket.request.max.bytes"
        if self.gate is not None and (lower := self.gate.request_bytes_max) is not None:
            limit, setting = min(limit, lower), "sasl.server.max.receive.size, before a login,"
        if not 0 < size <= limit:
            if size >> 16 == TLS_HANDSHAKE:
                raise InvalidRequest(f"the client begins with TLS, and the listener {self.listener_name} has none")
            raise InvalidRequest(f"a frame of {size} bytes ({setting} is {limit})")

    def _begin_frame(self, size: int, beginning: memoryview) -> None:
        """Give a frame that has not arrived whole a buffer, or stop reading until there is room for it."""
        partial = PartialFrame(self._owner.pool, size, beginning[_LENGTH.size :], self._loop.time())
        if self._owner.budget.reserve(partial, partial.buffer_bytes):
            self._partial = partial
        else:
            partial.release()
            self._hold(beginning)
            self._wait_for_budget()

    def _wait_for_budget(self) -> None:
        self._waits_for_budget = True
        self._owner.wait_for_budget(self)

    def _hold(self, received: memoryview) -> None:
        self._held = bytes(received)
        self._set_reading(False)

    def _continue_frame(self, partial: PartialFrame) -> None:
        if partial.complete:
            self._partial = None
            try:
                self._handle(partial.content())
            finally:
                if self._alone is not None and not self.is_closed:  # a copy of the frame is still worked on
                    self._charged = partial
                else:
                    self._end_partial(partial)

    def _end_partial(self, partial: PartialFrame) -> None:
        self._partial = self._charged = None
        partial.release()
        self._owner.budget.release(partial)
        self._owner.budget_released()

    # Handling

    def _handle(self, frame: memoryview) -> None:
        gate = self.gate
        outcome = self._owner.handle(frame, self) if gate is None else gate.handle(frame)
        measured = self.measured
        if measured is not None:
            self.measured = None
            self._note_outcome(measured, outcome)
        if outcome is None:
            return
        if not self._replies and isinstance(outcome, list):
            self._unsent.add(outcome)
            if measured is not None:
                self._unsent.measure(measured)
            return
        reply = Reply()
        reply.measured = measured
        self._replies.append(reply)
        if isinstance(outcome, list):
            reply.parts = outcome
            reply.ready = True
        elif isinstance(outcome, CallbackAnswer):
            reply.later = outcome
            outcome.when_settled(functools.partial(self._on_settled, reply))
        else:
            self._await(reply, outcome)

    def _note_outcome(self, measured: MeasuredRequest, outcome: Outcome) -> None:
        measured.note_read(self._read_ns, self.last_active)
        if outcome is None or isinstance(outcome, list):
            measured.note_answered()
            if outcome is None:
                measured.note_queued()
                measured.note_sent()
        elif not isinstance(outcome, Unfinished):  # which goes on working
            measured.note_handled()

    def _await(self, reply: Reply, outcome: Awaitable[Answer | Awaitable[Answer]]) -> None:
        future = ensure_awaited(outcome)
        if isinstance(outcome, Unfinished):
            self._alone = future
        self._waiting.add(future)
        future.add_done_callback(functools.partial(self._on_answered, reply))

    def _on_answered(self, reply: Reply, future: "asyncio.Future[Answer | Awaitable[Answer]]") -> None:
        self._waiting.discard(future)
        if self.is_closed or future.cancelled():
            return
        if self._alone is future:
            self._alone = None
            if self._charged is not None:
                self._end_partial(self._charged)
        error = future.exception()
        if error is not None:
            self._fail(error)
        else:
            result = future.result()
            if result is None or isinstance(result, list):
                reply.parts, reply.ready = result, True
                if reply.measured is not None:
                    reply.measured.note_answered()
            else:  # a request that has taken effect, and is answered later
                if reply.measured is not None:
                    reply.measured.note_handled()
                self._await(reply, result)
            self._flush()

    def _on_settled(self, reply: Reply, answer: CallbackAnswer[Any]) -> None:
        reply.later = None
        if self.is_closed:
            return
        if answer.error is not None:
            self._fail(answer.error)
            return
        reply.parts, reply.ready = answer.result, True
        if reply.measured is not None:
            reply.measured.note_answered()
        try:
            self._flush()
        except Exception as error:  # whoever has settled the answer has others to tell  # noqa: BLE001
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, InvalidRequest):
            self.close(f"bad request: {error.message}")
        else:
            note_failure("request", error, peer=self.peer)
            self.close("a request failed unexpectedly")

    # Writing

    def _flush(self) -> None:
        """Send the responses that are ready and next in order, as far as the channel takes them."""
        if self.is_closed:
            return
        replies = self._replies
        while replies and replies[0].ready:
            reply = replies.popleft()
            self._unsent.add(reply.parts or [])
            if reply.measured is not None:
                self._unsent.measure(reply.measured)
        if not self._writing:
            if self._unsent.parts:
                self._send()
        elif self.unsent_bytes > UNSENT_BYTES_MAX and len(self._unsent.parts) > 1:
            self.close(f"{self.unsent_bytes} bytes of responses are not read")
            return
        else:
            self._report_unsent()
        # Also with nothing held: what was handled alone may have been the last that was.
        if not (self._reading or self._waits_for_budget or self._is_blocked):
            self._loop.call_soon(self.resume)

    def _report_unsent(self) -> None:
        """Tell the listener how much the peer leaves unread."""
        unsent_bytes = self._unsent.size_bytes
        difference = unsent_bytes - self._reported_bytes
        if not difference:
            return
        self._reported_bytes = unsent_bytes
        self._owner.unsent_changed(difference)

    def _send(self) -> None:
        """Send until everything is gone, the channel takes no more, or it is the others' turn."""
        try:
            self._unsent.send()
        except OSError:
            self.close()
            return
        blocked = bool(self._unsent.parts)
        if blocked and not self._writing:
            self._loop.add_writer(self._fd, self._on_writable)
            self._set_reading(False)
        elif self._writing and not blocked:
            self._loop.remove_writer(self._fd)
        self._writing = blocked
        if blocked or self._reported_bytes:
            self._report_unsent()

    def _on_writable(self) -> None:
        self.last_active = self._loop.time()
        self._send()
        if not self.is_closed and not self._writing:
            self._flush()
            self.resume()
