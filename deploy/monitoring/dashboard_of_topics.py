"""The dashboard of topics."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Row, Variable, graph, number
from deploy.monitoring.shared_rows import RATE

TOPICS: Final = Dashboard(
    uid="ottla-topics",
    title="Ottla: topics",
    description="What is stored, and topics that follow others.",
    variables=[Variable("topic", "Topic", "ottla_broker_topic_log_size_bytes")],
    rows=[
        Row(
            "All topics",
            [
                number("Topics", "Topics of the cluster.", "max(ottla_controller_topics{@})"),
                number("Partitions", "Partitions of all topics.", 'sum(ottla_broker_partitions{role="leader",@})'),
                number(
                    "Offline partitions",
                    "Partitions without a leader.",
                    "max(ottla_controller_offline_partitions{@})",
                    wrong_from=1,
                ),
                number(
                    "Stored",
                    "Bytes of all logs, with all replicas.",
                    "sum(ottla_broker_log_size_bytes{@})",
                    unit="bytes",
                ),
            ],
        ),
        Row(
            "Records",
            [
                graph(
                    "Produce and Fetch",
                    "reqps",
                    "Requests by API.",
                    (f'sum by (api) (rate(ottla_broker_requests_total{{api=~"Produce|Fetch",@}}{RATE}))', "{{api}}"),
                    width=12,
                ),
                graph(
                    "Stored",
                    "bytes",
                    "Bytes of all logs, by broker.",
                    ("ottla_broker_log_size_bytes{@}", "{{instance}}"),
                    width=12,
                    is_stacked=True,
                ),
            ],
        ),
        Row(
            "Topics",
            [
                graph(
                    "Produced",
                    "Bps",
                    "Bytes that producers write, of the twenty topics with the most.",
                    (
                        f"topk(20, sum by (topic) (rate(ottla_broker_topic_produced_bytes_total{{@}}{RATE})))",
                        "{{topic}}",
                    ),
                ),
                graph(
                    "Fetched",
                    "Bps",
                    "Bytes that consumers read, of the twenty topics with the most.",
                    (
                        f"topk(20, sum by (topic) (rate(ottla_broker_topic_fetched_bytes_total{{@}}{RATE})))",
                        "{{topic}}",
                    ),
                ),
                graph(
                    "Size",
                    "bytes",
                    "Bytes of the logs of the twenty largest topics, with all replicas.",
                    ("topk(20, sum by (topic) (ottla_broker_topic_log_size_bytes{@}))", "{{topic}}"),
                ),
            ],
        ),
        Row(
            "Linked topics",
            [
                graph(
                    "Lag by link and topic",
                    "short",
                    "Offsets of the source that linked partitions do not have yet.",
                    ("sum by (link, topic) (ottla_broker_link_lag{@})", "{{link}} {{topic}}"),
                    width=12,
                ),
                graph(
                    "Fetched",
                    "Bps",
                    "Bytes of records fetched from source clusters.",
                    (f"rate(ottla_broker_link_fetched_bytes_total{{@}}{RATE})", "{{instance}}"),
                    width=12,
                ),
            ],
        ),
    ],
)
