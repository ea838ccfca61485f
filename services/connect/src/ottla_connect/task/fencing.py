"""Fences former tasks of a source that wrote in transactions.

Who initializes a transactional id has its open transaction aborted, and keeps its former holder out. Kafka's brokers
have no other request for it (Java's `Admin.fenceProducers` makes this one), so producers are made, with the settings
of the tasks' own.
"""

import logging
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException, Producer

from ottla_connect.ids import TaskId
from ottla_connect.processes.messages import FenceTasks, TasksFenced
from ottla_connect.task.channel import Channel
from ottla_connect.task.pipeline.error_handler import Interrupted
from ottla_connect.task.process import Process
from ottla_connect.task.transactional_client import (
    TRANSACTION_TIMEOUT_MS,
    patiently,
    transactional_settings,
)
from ottla_sdk.runtime.redaction import Redaction

AT_A_TIME_MAX = 8
FENCE_WITHIN_S = 45.0

log = logging.getLogger(__name__)


def fence_tasks(channel: Channel, redaction: Redaction, purpose: FenceTasks) -> TasksFenced:
    """Fence them all; the answer says why that has not succeeded."""
    process = Process.make(channel, redaction, purpose.worker)
    connector = process.providers.resolve(purpose.settings)
    give_up_s = time.monotonic() + FENCE_WITHIN_S

    def fence(number: int) -> str | None:
        task = TaskId(purpose.connector, number)
        own = {"client.id": f"connector-fencing-{task}"}
        settings = transactional_settings(process.worker, connector, task, own, timeout_ms=TRANSACTION_TIMEOUT_MS)
        try:
            producer = Producer(settings, logger=logging.getLogger("librdkafka"))
            patiently(producer.init_transactions, is_given_up=lambda: time.monotonic() > give_up_s)
        except Interrupted as error:
            return f"{settings['transactional.id']}: not within {FENCE_WITHIN_S:.0f} s: {error.__cause__}"
        except KafkaException as error:
            return f"{settings['transactional.id']}: {error.args[0].str()}"
        return None

    try:
        with ThreadPoolExecutor(AT_A_TIME_MAX) as threads:
            problems = [problem for problem in threads.map(fence, range(purpose.tasks)) if problem]
    except Exception as error:
        log.exception("former tasks could not be fenced")
        return TasksFenced(error=redaction.text(f"{type(error).__name__}: {error}"))
    log.info("%d former tasks of %s are fenced", purpose.tasks - len(problems), purpose.connector)
    return TasksFenced(error=redaction.text("; ".join(problems)) if problems else None)
