"""What mirror workers show."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_mirror = MetricFamily(ProcessRole.MIRROR)

TARGET = Label("target", "alias of a target cluster", "clusters of the worker's configuration")
FLOW = Label(
    "flow", "name of a flow, as SOURCE->TARGET", "flows of the worker's configuration, and those made by REST"
)
GROUP = Label(
    "group", "id of a consumer group", "groups that a flow translates; series beyond the limit are left out"
)
TOPIC = Label("topic", "name of the topic in the source", "topics of a flow; series beyond the limit are left out")
PARTITION = Label("partition", "number of the partition", "partitions of that topic")
COPIED = (FLOW, TOPIC, PARTITION)

MIRROR: Final[tuple[MetricDefinition, ...]] = (
    _mirror.gauge("ottla_mirror_member", "Whether the worker is a member of a target's group: 1 or 0.", TARGET),
    _mirror.gauge("ottla_mirror_leader", "Whether the worker leads a target's group: 1 or 0.", TARGET),
    _mirror.counter("ottla_mirror_rebalances_total", "Assignments taken.", TARGET),
    _mirror.gauge("ottla_mirror_flow_problem",
                  "Whether something keeps this worker from working on a flow: 1 or 0.", FLOW),
    _mirror.gauge("ottla_mirror_group_checkpoint_timestamp_seconds",
                  "When a group's offsets were last translated, in seconds since 1970.", FLOW, GROUP),
    _mirror.gauge("ottla_mirror_group_failed", "Whether a group's offsets could not be translated: 1 or 0.",
                  FLOW, GROUP),
    _mirror.counter("ottla_mirror_rest_failed_authentications_total",
                    "REST requests whose certificate, token or password was refused."),
    _mirror.counter("ottla_mirror_rest_denials_total", "REST requests of users who may only read."),
    _mirror.gauge("ottla_mirror_partition_lag_records", "Records of the source that are not copied.", *COPIED),
    _mirror.gauge("ottla_mirror_partition_lag_bytes", "About how many bytes these are.", *COPIED),
    _mirror.gauge("ottla_mirror_partition_lag_seconds",
                  "For how long the source has had records that are not copied.", *COPIED),
    _mirror.gauge("ottla_mirror_partition_records_per_second", "Records copied over the last seconds.", *COPIED),
    _mirror.gauge("ottla_mirror_partition_bytes_per_second", "Bytes copied over the last seconds.", *COPIED),
    _mirror.gauge("ottla_mirror_partition_offsets_unknown",
                  "Offsets of the source of which it is not known where they are at the target.", *COPIED),
    _mirror.gauge("ottla_mirror_partition_copying",
                  "Whether it is copied: 0 while it is paused, waits or has halted.", *COPIED),
    _mirror.counter("ottla_mirror_partition_records_total", "Records copied.", *COPIED),
    _mirror.counter("ottla_mirror_partition_bytes_total", "Bytes of the batches copied.", *COPIED),
    _mirror.counter("ottla_mirror_partition_records_missed_total",
                    "Records that the source removed before they were copied.", *COPIED),
    _mirror.counter("ottla_mirror_partition_records_refused_total", "Records that the target has refused.", *COPIED),
)  # fmt: skip
