"""Logs, topics and compaction."""

from collections.abc import Callable

from ottla_broker.log.cleaning.cleaner import LogCleaner
from ottla_broker.log.store.log_store import LogStore
from ottla_broker.partition_table import PartitionTable
from ottla_broker.topic_totals import totals_by_topic
from ottla_broker.topic_traffic import TopicTraffic, TrafficByTopic
from ottla_core.observe.metrics import Metrics


def show_logs(metrics: Metrics, partitions: PartitionTable, store: LogStore) -> None:
    """Show what the logs hold, and what disks have refused."""
    metrics.show_value("ottla_broker_log_size_bytes", lambda: sum(each.log.size_bytes for each in partitions))
    metrics.show(
        "ottla_broker_topic_log_size_bytes",
        lambda: [
            (size_bytes, {"topic": topic})
            for topic, size_bytes in totals_by_topic(
                (each.topic_partition.topic, each.log.size_bytes) for each in partitions
            ).items()
        ],
    )
    metrics.show_value("ottla_broker_lacking_logs", lambda: sum(each.lacks_records for each in partitions))
    metrics.show_value("ottla_broker_failed_logs", lambda: sum(each.has_failed_log for each in partitions))
    metrics.show(
        "ottla_broker_storage_errors_total",
        lambda: [
            (count, {"directory": str(directory), "action": action})
            for directory, action, count in store.storage_problems.counts()
        ],
    )


def show_traffic(metrics: Metrics, traffic: TrafficByTopic) -> None:
    """Show what goes into and out of topics."""

    def show(name: str, count_of: Callable[[TopicTraffic], int]) -> None:
        metrics.show(name, lambda: [(count_of(each), {"topic": topic}) for topic, each in traffic.counts()])

    show("ottla_broker_topic_produced_bytes_total", lambda each: each.produced_bytes)
    show("ottla_broker_topic_produced_records_total", lambda each: each.produced_records)
    show("ottla_broker_topic_fetched_bytes_total", lambda each: each.fetched_bytes)


def show_open_transactions(metrics: Metrics, partitions: PartitionTable, now_ms: Callable[[], int]) -> None:
    """Show the transactions that are open in logs, and whether one may hang."""
    metrics.show_value(
        "ottla_broker_open_transactions", lambda: sum(len(each.log.producers.transactions) for each in partitions)
    )
    metrics.show_value(
        "ottla_broker_open_transaction_silent_seconds_max",
        lambda: (
            max(
                (each.log.transactions.silent_ms(now_ms()) for each in partitions if each.state.link is None),
                default=0,
            )
            / 1000
        ),
    )


def show_compaction(metrics: Metrics, cleaner: LogCleaner) -> None:
    """Show what compaction does."""
    metrics.show_value("ottla_broker_compaction_rounds_total", lambda: cleaner.rounds)
    metrics.show(
        "ottla_broker_compaction_size_bytes_total",
        lambda: [(cleaner.read_bytes, {"direction": "read"}), (cleaner.written_bytes, {"direction": "written"})],
    )
    metrics.show_value("ottla_broker_compaction_dirty_ratio_max", lambda: cleaner.dirty_ratio_max)
    metrics.show_value("ottla_broker_uncleanable_logs", lambda: cleaner.uncleanable_count)
