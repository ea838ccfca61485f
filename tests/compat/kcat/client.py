"""kcat as a `ClientUnderTest`, driven as a program.

Publishing goes one process per message, since headers are command-line options; kcat can neither choose a
timestamp, nor tell an empty value from a null one, nor publish a record with neither key nor value. Reading asks
for the lengths of key and value in the output, so that any bytes come through.
"""

import re
import subprocess
from collections.abc import Sequence

from tests.compat.cases import Header, Message, PublishCase

DEADLINE_S = 30.0
KEY_DELIMITER = b"<key ends>"
MESSAGE_DELIMITER = b"<message ends>"
OUTPUT_FORMAT = "%T|%p|%o|%K|%S|%h\n%k%s"
NULL_LENGTH = -1


class KcatClient:
    """The kcat command."""

    sets_timestamps = False

    def can_publish(self, message: Message) -> bool:
        return message.value != b"" and (message.key, message.value) != (None, None)

    def publish(self, bootstrap: str, topic: str, case: PublishCase) -> None:
        for message in case.messages:
            self._publish_one(bootstrap, topic, case, message)

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Message]:
        arguments = ("-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-c", str(count))
        output = _kcat(bootstrap, *arguments, "-X", "check.crcs=true", "-f", OUTPUT_FORMAT)
        return parse_output(output)

    def beginning_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        return self._query(bootstrap, topic, partition, -2)

    def end_offset(self, bootstrap: str, topic: str, partition: int) -> int:
        return self._query(bootstrap, topic, partition, -1)

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = self._query(bootstrap, topic, partition, timestamp_ms)
        return None if offset < 0 else offset

    def _publish_one(self, bootstrap: str, topic: str, case: PublishCase, message: Message) -> None:
        arguments = ["-P", "-t", topic, "-p", str(message.partition), "-z", case.codec, "-Z"]
        arguments += ["-X", f"enable.idempotence={str(case.idempotent).lower()}", "-X", "message.max.bytes=2000000"]
        arguments += ["-D", MESSAGE_DELIMITER.decode()]
        for name, value in message.headers:
            arguments += ["-H", name if value is None else f"{name}={value.decode()}"]
        line = message.value or b""
        if message.key is not None:
            arguments += ["-K", KEY_DELIMITER.decode()]
            line = message.key + KEY_DELIMITER + line
        _kcat(bootstrap, *arguments, standard_input=line + MESSAGE_DELIMITER)

    def _query(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int:
        output = _kcat(bootstrap, "-Q", "-t", f"{topic}:{partition}:{timestamp_ms}").decode()
        found = re.search(r"offset (-?\d+)", output)
        assert found, output
        return int(found.group(1))


def parse_output(output: bytes) -> list[Message]:
    """The messages in kcat's output of `OUTPUT_FORMAT`."""
    messages = []
    while output:
        head, _, output = output.partition(b"\n")
        timestamp, partition, offset, key_length, value_length, headers = head.split(b"|", 5)
        key, output = _cut(output, int(key_length))
        value, output = _cut(output, int(value_length))
        messages.append(
            Message(
                key=key,
                value=value,
                headers=_headers(headers.decode()),
                timestamp_ms=int(timestamp),
                partition=int(partition),
                offset=int(offset),
            )
        )
    return messages


def _headers(text: str) -> tuple[Header, ...]:
    pairs: Sequence[tuple[str, str, str]] = [pair.partition("=") for pair in text.split(",") if pair]
    return tuple((name, None if value == "NULL" else value.encode()) for name, _, value in pairs)


def _cut(data: bytes, length: int) -> tuple[bytes | None, bytes]:
    return (None, data) if length == NULL_LENGTH else (data[:length], data[length:])


def _kcat(bootstrap: str, *arguments: str, standard_input: bytes = b"") -> bytes:
    command = ["kcat", "-b", bootstrap, "-q", *arguments]
    outcome = subprocess.run(command, input=standard_input, capture_output=True, timeout=DEADLINE_S, check=False)
    assert outcome.returncode == 0, f"{command}: {outcome.stderr.decode(errors='replace')}"
    return outcome.stdout
