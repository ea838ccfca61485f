"""Topics whose contents are hard on a page: very many messages, messages of 1 MB, bytes and hostile texts.

The large topic's messages are ten milliseconds apart, the newest of them now, so that a time leads into their midst.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from benchmarks.console_ground import ConsoleGround, address
from benchmarks.console_sql import SQL_COUNT
from benchmarks.summary import Measures

LARGE: Final = "messages-large"
LARGE_PARTITIONS: Final = 4
APART_MS: Final = 10
MEGABYTE: Final = 1_000_000
DEEP: Final = 10_000
SEED: Final = 20
SCRIPT: Final = "<script>document.title = 'taken'</script><img src=x onerror=alert(1)>\"'&{{7*7}}{% raw %}"
TERMINAL: Final = "\x1b]0;taken\x07\x1b[2J\x1b[31m\u202etxt.exe\u202c\x00\x07"


def large(ground: ConsoleGround, messages: int, repetitions: int) -> dict[str, Measures]:
    """Return the figures of pages of a topic with very many messages.

    Raises:
        BenchmarkFailed: the console answers with an error.
    """
    ground.say(f"publishing {messages:,} messages")
    ground.make_topics([LARGE], LARGE_PARTITIONS)
    begin_ms = int(time.time() * 1000) - messages * APART_MS
    ground.publish(LARGE, _numbered(messages, begin_ms), **{"queue.buffering.max.messages": 1_000_000})
    path = f"/topics/{LARGE}/messages"
    pages = {
        "partitions": f"/topics/{LARGE}",
        "newest": path,
        "oldest": address(path, order="oldest"),
        "by-time": address(path, order="oldest", start=f"@{begin_ms + messages // 2 * APART_MS}"),
        "from-offset": address(path, order="oldest", start=str(messages // LARGE_PARTITIONS // 2)),
        "before-the-end": address(path, order="oldest", start="-1000"),
        "one-partition": address(path, partition="0"),
        "one-message": f"{path}/0/{messages // LARGE_PARTITIONS // 2}",
        "searched-near-the-end": address(path, q=f"$.n >= {messages - 50}"),
        "sql": address(f"/topics/{LARGE}/sql", q=SQL_COUNT),
    }
    return _pages(ground, "large", pages, repetitions)


def hostile(ground: ConsoleGround, messages: int, repetitions: int) -> dict[str, Measures]:
    """Return the figures of pages of messages that are large, no text, or meant to do harm.

    Raises:
        BenchmarkFailed: the console answers with an error.
    """
    measured: dict[str, Measures] = {}
    for name, made in _HOSTILE.items():
        topic = f"messages-{name}"
        ground.say(f"publishing {messages:,} messages: {name}")
        ground.make_topics([topic])
        ground.publish(topic, (made(number) for number in range(messages)), **{"message.max.bytes": 2 * MEGABYTE})
        path = f"/topics/{topic}/messages"
        pages = {
            "newest": path,
            "oldest": address(path, order="oldest"),
            "one-message": f"{path}/0/{messages - 1}",
            "searched": address(path, q="zq-no-message-has-this"),
            "by-place": address(path, q="$.a.a.a > 1"),
            "download": address(f"/topics/{topic}/messages.download/jsonl"),
            "sql": address(f"/topics/{topic}/sql", q=SQL_COUNT),
        }
        measured |= _pages(ground, name, pages, repetitions)
    return measured


def _pages(ground: ConsoleGround, case: str, pages: dict[str, str], repetitions: int) -> dict[str, Measures]:
    measured: dict[str, Measures] = {}
    with ground.memory() as memory:
        for name, path in pages.items():
            measured[f"{case}: {name}"] = ground.view(path, repetitions)
    return {**measured, f"{case}: memory": memory}


def _numbered(messages: int, begin_ms: int) -> Iterator[dict[str, Any]]:
    for number in range(messages):
        value = b'{"n": %d, "city": "Prague", "note": "%064x"}' % (number, number)
        yield {
            "value": value,
            "timestamp": begin_ms + number * APART_MS,
            "partition": number % LARGE_PARTITIONS,
        }


def _megabyte(number: int) -> dict[str, Any]:
    head = b'{"n": %d, "note": "' % number
    return {"key": b"%d" % number, "value": head + b"x" * (MEGABYTE - len(head) - 2) + b'"}'}


def _binary(number: int) -> dict[str, Any]:
    return {"key": b"\x00\xff%d" % number, "value": random.Random(SEED + number).randbytes(MEGABYTE)}


def _script(number: int) -> dict[str, Any]:
    text = f"{number} {SCRIPT}"
    value = ("{" + ", ".join(f'"{index}": {_quoted(text)}' for index in range(5_000)) + "}").encode()
    return {"key": text, "value": value, "headers": [(SCRIPT, SCRIPT.encode())]}


def _terminal(number: int) -> dict[str, Any]:
    text = (f"{number} " + TERMINAL * 20_000)[: MEGABYTE // 2]
    return {"key": TERMINAL, "value": text.encode(), "headers": [(TERMINAL.replace("\x00", ""), TERMINAL.encode())]}


def _deep(number: int) -> dict[str, Any]:
    return {"key": "[" * DEEP + "]" * DEEP, "value": '{"a":' * DEEP + str(number) + "}" * DEEP}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_HOSTILE: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "megabyte": _megabyte,
    "binary": _binary,
    "script": _script,
    "terminal": _terminal,
    "deep": _deep,
}
