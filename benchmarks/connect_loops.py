"""The plain confluent-kafka loops that Connect's tasks are measured against; each runs in a process of its own.

python -m benchmarks.connect_loops produce|consume|consume-with-own-settings BOOTSTRAP TOPIC RECORDS VALUES REPORT
"""

import json
import sys
import time
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, Producer

from benchmarks.client import CLIENT_SETTINGS
from ottla_connect.config import WorkerConfig
from ottla_connect.task.clients import client_settings

BATCH = 500
FULL_QUEUE_WAIT_S = 0.1


def produce(bootstrap: str, topic: str, records: int, values_path: Path, report: Path) -> None:
    """Publish JSON as fast as one producer does with the settings of a source task."""
    worker = WorkerConfig.parse({"bootstrap.servers": bootstrap})
    producer = Producer({**client_settings("producer", worker, {}, {}), **CLIENT_SETTINGS})
    values = json.loads(values_path.read_text())
    encode = msgspec.json.Encoder().encode
    report.write_text(json.dumps(_now()))
    for first in range(0, records, BATCH):
        start = first % len(values)
        for value in values[start : start + BATCH]:
            while True:
                try:
                    producer.produce(topic, encode(value))
                    break
                except BufferError:
                    producer.poll(FULL_QUEUE_WAIT_S)
        producer.poll(0)
    producer.flush()


def consume(bootstrap: str, topic: str, records: int, report: Path, *, own_settings: bool) -> None:
    """Read JSON as fast as one consumer does with the settings of a sink task, or with librdkafka's own."""
    worker = WorkerConfig.parse({"bootstrap.servers": bootstrap})
    settings = {"group.id": f"plain-{time.time_ns():x}", **CLIENT_SETTINGS}
    if own_settings:
        settings |= {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    else:
        settings = client_settings("consumer", worker, {}, settings)
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    decode = msgspec.json.Decoder().decode
    got = 0
    first = None
    while got < records:
        messages = consumer.consume(BATCH, 1.0)
        if messages and first is None:
            first = _now()
        for message in messages:
            if message.error() is None:
                decode(message.value() or b"null")
        got += len(messages)
    report.write_text(json.dumps({"first": first, "last": _now()}))
    consumer.close()


def _now() -> dict[str, float]:
    return {"wall_s": time.monotonic(), "cpu_s": time.process_time()}


if __name__ == "__main__":
    _, what, bootstrap_servers, topic_name, count, values_file, report_file = sys.argv
    arguments = (bootstrap_servers, topic_name, int(count))
    if what == "produce":
        produce(*arguments, Path(values_file), Path(report_file))
    else:
        consume(*arguments, Path(report_file), own_settings=what == "consume-with-own-settings")
