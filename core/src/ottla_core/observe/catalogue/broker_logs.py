"""What brokers show of their logs and disks."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_broker = MetricFamily(ProcessRole.BROKER)

DIRECTORY = Label("directory", "path of a log directory", "log.dirs of the broker")
ACTION = Label("action", "what was tried of the disk", "a few, fixed by the program")
TOPIC = Label("topic", "name of a topic", "the first 1000 by name; all others together are _other")
TRAFFIC_TOPIC = Label("topic", "name of a topic", "the first 1000 that came here; all others together are _other")
COMPACTION_SIDE = Label("direction", "read or written", "two")

LOGS: Final[tuple[MetricDefinition, ...]] = (
    _broker.gauge("ottla_broker_log_size_bytes", "Bytes of all logs."),
    _broker.gauge("ottla_broker_topic_log_size_bytes", "Bytes of a topic's logs here.", TOPIC),
    _broker.counter(
        "ottla_broker_topic_produced_bytes_total",
        "Bytes of the batches that were appended here to partitions of a topic, as they were sent.",
        TRAFFIC_TOPIC,
    ),
    _broker.counter("ottla_broker_topic_produced_records_total", "Records of these batches.", TRAFFIC_TOPIC),
    _broker.counter(
        "ottla_broker_topic_fetched_bytes_total",
        "Bytes of the batches that consumers were given from partitions of a topic; those of followers count as "
        "ottla_broker_replicated_size_bytes_total at these.",
        TRAFFIC_TOPIC,
    ),
    _broker.gauge("ottla_broker_disk_free_bytes", "What may still be written to a log directory's disk.", DIRECTORY),
    _broker.gauge("ottla_broker_disk_size_bytes", "Size of a log directory's disk.", DIRECTORY),
    _broker.gauge(
        "ottla_broker_disk_until_full_seconds",
        "In how long a log directory's disk will be full if it fills as in the last hour; infinite if it does not.",
        DIRECTORY,
    ),
    _broker.counter(
        "ottla_broker_storage_errors_total",
        "What the disk refused of logs, a full one for example.",
        DIRECTORY,
        ACTION,
    ),
    _broker.gauge(
        "ottla_broker_failed_logs",
        "Replicas here that take no more records until the broker is restarted, as an fsync or a read has failed.",
    ),
    _broker.gauge(
        "ottla_broker_lacking_logs",
        "Logs of which the disk has lost committed records, until they are copied again.",
    ),
    _broker.gauge(
        "ottla_broker_cluster_copies_behind",
        "Log directories whose copy of the cluster's state lacks changes, because the disk refuses them.",
    ),
    _broker.gauge(
        "ottla_broker_open_transactions",
        "Transactions that are open in replicas here; one that is open in several partitions counts for each.",
    ),
    _broker.gauge(
        "ottla_broker_open_transaction_silent_seconds_max",
        "For how long the producer of the transaction that is open longest in a replica here has written nothing "
        "there, of all replicas the longest time; beyond the largest timeout of transactions it hangs. Without "
        "topics that follow another cluster.",
    ),
    _broker.counter("ottla_broker_compaction_rounds_total", "Finished rounds of compaction."),
    _broker.counter(
        "ottla_broker_compaction_size_bytes_total",
        "Bytes of segments that compaction has replaced, and of those it has put in their place.",
        COMPACTION_SIDE,
    ),
    _broker.gauge(
        "ottla_broker_compaction_dirty_ratio_max",
        "Share of the dirtiest compacted log that waits to be compacted, as last looked at, from 0 to 1.",
    ),
    _broker.gauge("ottla_broker_uncleanable_logs", "Logs that cannot be compacted and are set aside."),
)
