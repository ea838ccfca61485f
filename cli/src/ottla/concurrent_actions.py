"""Several things done by one command, each of which succeeds or fails by itself: report all, fail if any failed."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import typer

from ottla.output import note, print_json
from ottla.waiting_notice import told_when_slow
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, describe_error


def finish_each(
    kind: str,
    done: str,
    futures: Mapping[str, "Future[None]"],
    bootstrap: str,
    *,
    as_json: bool,
    tolerated: frozenset[int] = frozenset(),
    in_words: Callable[[Any], str | None] = lambda error: None,
    wait: Callable[["Future[None]"], None] = lambda future: future.result(),
) -> None:
    """Wait for one operation per name, report each, and end with exit code 1 if any failed.

    Args:
        kind: what the names are, as a field of the JSON result.
        done: the word for success, such as ``deleted``.
        futures: one per name.
        bootstrap: where the client connects, for messages.
        as_json: whether the result is printed for programs.
        tolerated: codes of errors that count as success.
        in_words: returns a better message than librdkafka's for some `KafkaError`s.
        wait: returns when a future is done, or raises why it failed.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    results: list[dict[str, str | None]] = []
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S):
        for name, future in futures.items():
            error = None
            try:
                wait(future)
            except KafkaException as exception:
                reason = exception.args[0]
                if reason.code() not in tolerated:
                    error = in_words(reason) or describe_error(reason, bootstrap)
            results.append({kind: name, "error": error})
    if as_json:
        print_json([{**result, "status": "failed" if result["error"] else done} for result in results])
    for result in results:
        if result["error"] is not None:
            note(f"ottla: {result[kind]} was not {done}: {result['error']}")
        elif not as_json:
            print(f"{done} {result[kind]}")
    if any(result["error"] is not None for result in results):
        raise typer.Exit(1)
