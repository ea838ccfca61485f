"""Clients that mean harm or are broken, until SIGTERM: each behaviour in a thread of its own for each broker.

Nothing that they send may change what honest clients work on: garbage is random or cut short, and whole requests only
ask. What they did is counted, as a trial in which nobody harms anybody says nothing.
"""

import argparse
import json
import random
import resource
import signal
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from kio.schema.index import api_key_map

from tests.faults.fault import HostileBehaviour
from tests.support.clients.raw_client import RawClient, Silence, encode_request, request_type
from tests.support.clients.raw_requests import fetch_request, metadata_request
from tests.system.bad_input_probes import FRAME_PROBES

TOPIC, NO_TOPIC_ID = "fruit", UUID(int=1)
ASKING_APIS = (2, 3, 9, 10, 15, 32, 75)
"""ListOffsets, Metadata, OffsetFetch, FindCoordinator, DescribeGroups, DescribeConfigs, DescribeTopicPartitions."""
ANNOUNCED_BYTES = (1000, 1 << 20, 100 << 20)
FETCH_BYTES = 10 << 20
HALF_FRAMES, HUGE_REQUESTS, UNREAD, MANY = 100, 20, 10, 250
"""Connections to each broker at a time."""
PIPELINED = 500
REACTION_S = 0.2
HELD_S = 4.0
PAUSE_S = (0.01, 0.1)
NOTE_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Guest:
    """One behaviour towards one broker."""

    host: str
    port: int
    chance: random.Random
    ending: threading.Event

    def connect(self, receive_buffer_bytes: int | None = None) -> RawClient:
        return RawClient(self.host, self.port, receive_buffer_bytes=receive_buffer_bytes)


def garbage(guest: Guest) -> int:
    """Bytes that are no request, and requests that are no good."""
    probe = guest.chance.choice(FRAME_PROBES)
    sent = probe.sent
    if guest.chance.random() < 0.5:
        api_key, version = guest.chance.choice(sorted(api_key_map)), guest.chance.randint(-2, 20)
        payload = struct.pack(">hhih", api_key, version, 7, -1) + guest.chance.randbytes(guest.chance.randrange(200))
        sent = struct.pack(">i", len(payload)) + payload
    with guest.connect() as client:
        client.send_bytes(sent)
        if probe.then_half_close:
            client.half_close()
        client.is_closed(within_s=REACTION_S)
    return 1


def half_frames(guest: Guest) -> int:
    """Frames whose rest never comes, or comes byte by byte."""
    with ExitStack() as held:
        clients = [held.enter_context(guest.connect()) for _ in range(HALF_FRAMES)]
        for client in clients:
            client.send_bytes(struct.pack(">i", guest.chance.choice(ANNOUNCED_BYTES)) + b"half")
        for _ in range(int(HELD_S)):
            for client in clients:
                with suppress(ConnectionError):  # the broker may have had enough of it
                    client.send_bytes(b"x")
            if guest.ending.wait(1.0):
                break
    return HALF_FRAMES


def huge_requests(guest: Guest) -> int:
    """The largest requests that are allowed, of which a part comes."""
    with ExitStack() as held:
        for _ in range(HUGE_REQUESTS):
            client = held.enter_context(guest.connect())
            client.send_bytes(struct.pack(">i", max(ANNOUNCED_BYTES)) + bytes(guest.chance.randrange(1 << 18)))
        guest.ending.wait(HELD_S)
    return HUGE_REQUESTS


def unread(guest: Guest) -> int:
    """Requests whose answers nobody reads."""
    asked = (
        encode_request(metadata_request(None), 1),
        encode_request(fetch_request(TOPIC, 0, bytes_max=FETCH_BYTES), 2),
    )
    with ExitStack() as held:
        for _ in range(UNREAD):
            client = held.enter_context(guest.connect(receive_buffer_bytes=4096))
            frame = guest.chance.choice(asked)
            client._socket.settimeout(REACTION_S)
            with suppress(TimeoutError, ConnectionError):  # it takes no more, as it should
                client.send_bytes((struct.pack(">i", len(frame)) + frame) * PIPELINED)
        guest.ending.wait(HELD_S)
    return UNREAD


def many_connections(guest: Guest) -> int:
    """Connections that say nothing, all at once, and go again."""
    with ExitStack() as held:
        for _ in range(MANY):
            held.enter_context(guest.connect())
        guest.ending.wait(guest.chance.uniform(0, HELD_S))
    return MANY


def large_requests_in_turn(frames: Sequence[bytes]) -> Callable[[Guest], int]:
    """Requests of a mebibyte that ask for as much work as possible."""

    def ask(guest: Guest) -> int:
        with guest.connect() as client:
            client.send_frame(guest.chance.choice(frames))
            client.read_frame()
        return 1

    return ask


def _large_frames() -> Iterator[bytes]:
    # Seconds of a busy machine, which the others need not wait for.
    from ottla_broker.dispatch import APIS  # noqa: PLC0415
    from tests.support.messages.large_requests import large_requests  # noqa: PLC0415

    for api_key in ASKING_APIS:
        asking = request_type(api_key, APIS[api_key].newest)
        yield from (request.frame for request in large_requests(asking, topic=TOPIC, topic_id=NO_TOPIC_ID))


def behaviour(what: HostileBehaviour) -> Callable[[Guest], int]:
    """What a client does in one round; it returns how often it has."""
    if what is HostileBehaviour.LARGE:
        return large_requests_in_turn(list(_large_frames()))
    return {
        HostileBehaviour.GARBAGE: garbage,
        HostileBehaviour.HALF: half_frames,
        HostileBehaviour.HUGE: huge_requests,
        HostileBehaviour.UNREAD: unread,
        HostileBehaviour.MANY: many_connections,
    }[what]


def keep_on(act: Callable[[Guest], int], guest: Guest, what: str, counts: Counter[str]) -> None:
    """Behaves so until it is told to end; a broker that refuses or is away ends no thread."""
    while not guest.ending.is_set():
        with suppress(OSError, Silence):
            counts[what] += act(guest)
        guest.ending.wait(guest.chance.uniform(*PAUSE_S))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--behaviours", required=True, help="comma-separated")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    counts: Counter[str] = Counter()
    for name in options.behaviours.split(", "):
        act = behaviour(HostileBehaviour(name))
        for address in options.bootstrap.split(","):
            host, _, port = address.rpartition(":")
            guest = Guest(host, int(port), random.Random(f"{name} to {host} of {options.seed}"), ending)
            threading.Thread(target=keep_on, args=(act, guest, name, counts), daemon=True).start()
    while not ending.wait(NOTE_INTERVAL_S):
        options.notes.write_text(json.dumps(counts))
    options.notes.write_text(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
