"""Pushes go on to a receiver of OTLP together, and what finds no room or no receiver is counted."""

from collections import Counter

from ottla_broker.telemetry.forwarding import OVERHEAD_BYTES, ClientMetricsForwarding
from ottla_core.config import MetricsSettings, validated
from tests.support.eventually import eventually
from tests.support.free_ports import free_ports
from tests.support.servers.metrics_receiver import receiving


def settings(port: int) -> MetricsSettings:
    values = {"metrics.otlp.endpoint": f"http://127.0.0.1:{port}", "metrics.otlp.headers": "token=1"}
    return validated(MetricsSettings, values, {})


def test_what_is_offered_is_sent_with_the_headers_of_the_settings() -> None:
    (port,) = free_ports(1)
    pushes: Counter[str] = Counter()
    with receiving(port) as receiver:
        forwarding = ClientMetricsForwarding(settings(port), pushes)
        try:
            forwarding.offer(b"one")
            path, headers, body = receiver.requests.get(timeout=30)
            assert (path, headers["token"], body) == ("/v1/metrics", "1", b"one")
            eventually(lambda: pushes == {"sent": 1}, "it is counted")
        finally:
            forwarding.close()
        forwarding._thread.join(30)
        assert not forwarding._thread.is_alive()


def test_what_a_receiver_does_not_take_is_counted() -> None:
    (port,) = free_ports(1)
    pushes: Counter[str] = Counter()
    with receiving(port, status=503):
        forwarding = ClientMetricsForwarding(settings(port), pushes)
        try:
            forwarding.offer(b"one")
            eventually(lambda: pushes == {"undelivered": 1}, "it is counted")
        finally:
            forwarding.close()


def test_what_finds_the_queue_full_is_dropped() -> None:
    pushes: Counter[str] = Counter()
    (port,) = free_ports(1)
    forwarding = ClientMetricsForwarding(settings(port), pushes, queued_bytes_max=2 * OVERHEAD_BYTES)
    try:
        forwarding.offer(bytes(OVERHEAD_BYTES + 1))
        assert pushes == {"dropped": 1}
    finally:
        forwarding.close()
