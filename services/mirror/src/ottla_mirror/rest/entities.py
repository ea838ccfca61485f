"""The JSON documents of the REST API. Pure.

A flow is named by its clusters' aliases as in MirrorMaker's configuration, `A->B`, which is `A-%3EB` in a path. Any
worker answers: what others know it asks them, and what only the leader of the target's group can do it sends there.

=======================================  ============================================================================
`GET /`                                  `WorkerInfo`
`GET /health`                            `WorkerHealth`; status 200, 503 while starting, 500
`GET /flows`                             list of `FlowSummary`
`POST /flows`                            takes `NewFlow`, answers `FlowInfo` with 201; 409 if there is such a flow
`GET /flows/{name}`                      `FlowInfo`
`DELETE /flows/{name}`                   204; 409 for a flow of the worker's own configuration
`GET /flows/{name}/status`               `FlowStatus`
`GET /flows/{name}/lag`                  `FlowLag`
`PUT /flows/{name}/pause`, `…/resume`    202
`PUT /flows/{name}/throttle`             takes `Throttle`, answers 202
`GET /flows/{name}/topics`               list of `TopicStatus`
`POST /flows/{name}/topics/refresh`      looks for new topics, partitions and settings now; list of `TopicStatus`
`GET /flows/{name}/groups`               list of `GroupStatus`
`POST /flows/{name}/groups/{group}/sync`  translates one group now, `GroupSync`
=======================================  ============================================================================

Errors are `{"error_code": STATUS, "message": "…"}`: 400 for a wrong request, 404 for a flow or group that there is
not, 409 for what cannot be done in this state or during a rebalance, 503 where a cluster does not answer.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FlowState = Literal["STARTING", "RUNNING", "PAUSED", "DEGRADED", "FAILED"]
"""STARTING: not everything is assigned and found yet. DEGRADED: some partitions or topics are halted, refused or
wait. FAILED: nothing is copied, for the reason that is told."""
PartitionState = Literal["STARTING", "COPYING", "PAUSED", "HALTED", "WAITING", "UNASSIGNED"]
"""STARTING: its position is looked for. HALTED: it needs somebody's decision, for the reason that is told. WAITING:
something is away, and asked for again. UNASSIGNED: no worker has it just now."""
Origin = Literal["configuration", "created"]


class WorkerInfo(BaseModel):
    """What a worker says of itself."""

    version: str
    worker_id: str = Field(description="Its URL, under which other workers reach it.")
    targets: list[str] = Field(description="Aliases of the clusters that it may mirror to.")
    flows: list[str] = Field(description="Names of all flows.")


class WorkerHealth(BaseModel):
    """Whether a worker works."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


class Strict(BaseModel):
    """A body that is taken: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class NewFlow(Strict):
    """A flow to make."""

    source: str = Field(description="Alias of the source.", pattern=r"^[A-Za-z0-9._-]+$")
    target: str = Field(description="Alias of the target, one of the worker's clusters.")
    source_settings: dict[str, str] = Field(
        default_factory=dict,
        description="Client settings of the source, such as bootstrap.servers; may be empty where the alias is "
        "one of the worker's clusters. Secrets as ${provider:path:key}.",
    )
    settings: dict[str, str] = Field(
        default_factory=dict, description="The flow's settings without a prefix, such as topics."
    )


class FlowInfo(BaseModel):
    """A flow as it is configured."""

    name: str
    source: str
    target: str
    origin: Origin
    paused: bool
    throttle_bytes_per_second: int | None = Field(description="Most bytes per second of all workers; null for any.")
    settings: dict[str, str] = Field(description="Those that were written; secrets are hidden.")
    source_settings: dict[str, str] = Field(description="Of a source that came with the flow; secrets are hidden.")


class FlowSummary(BaseModel):
    """A line of a list of flows."""

    name: str
    source: str
    target: str
    origin: Origin
    state: FlowState
    reason: str = Field(description="Why it fails, is degraded or starts; empty otherwise.")
    topics: int
    partitions: int
    lag_records: int | None = Field(description="Records of the source that are not copied; null if not known.")
    throttle_bytes_per_second: int | None


class PartitionStatus(BaseModel):
    """One partition of the source, as the worker knows it that copies it."""

    topic: str = Field(description="At the source.")
    remote_topic: str = Field(description="At the target.")
    partition: int
    state: PartitionState
    reason: str = Field(description="Why it is halted or waits; empty otherwise.")
    worker_id: str | None
    source_start: int | None = Field(description="First offset of the source, as last seen.")
    source_position: int | None = Field(description="The next offset of the source to copy.")
    source_end: int | None = Field(description="End of the source, as last seen.")
    target_position: int | None = Field(description="The target's offset after the last record copied.")
    lag_records: int | None
    lag_bytes: int | None = Field(description="Estimated from the batches copied so far.")
    lag_seconds: float | None = Field(
        description="How old the oldest record is that is not copied, about; 0 if none."
    )
    records_copied: int = Field(description="By this worker since it has the partition.")
    bytes_copied: int
    records_per_second: float = Field(description="Over the last seconds.")
    bytes_per_second: float
    records_missed: int = Field(description="Removed at the source before they were copied.")
    records_refused: int = Field(description="Refused by the target and written to the dead letter topic.")
    offsets_unknown: int = Field(
        default=0,
        description="Offsets of the source in holes of the map: groups there go back to where the hole begins.",
    )


class WorkerShare(BaseModel):
    """What one worker has of a flow."""

    worker_id: str
    partitions: int
    leads: bool


class TopicStatus(BaseModel):
    """A topic of the source that the flow takes, or would but for a reason."""

    topic: str
    remote_topic: str
    partitions: int
    state: Literal["COPIED", "WAITING", "REFUSED"]
    reason: str


class FlowStatus(BaseModel):
    """What a flow does."""

    name: str
    state: FlowState
    reason: str
    paused: bool
    throttle_bytes_per_second: int | None
    workers: list[WorkerShare]
    topics: list[TopicStatus]
    partitions: list[PartitionStatus]


class FlowLag(BaseModel):
    """How far a flow is behind, and how fast it goes."""

    name: str
    state: FlowState
    lag_records: int
    lag_bytes: int
    lag_seconds: float
    records_per_second: float
    bytes_per_second: float
    source_records: int = Field(description="Records that the source has, counted by offsets.")
    seconds_left: float | None = Field(description="At the present rate; null while nothing moves.")
    partitions_unknown: int = Field(description="Partitions of which nobody knows the lag just now.")
    partitions: list[PartitionStatus]


class Throttle(Strict):
    """The most bytes per second that all workers together copy for a flow."""

    bytes_per_second: int | None = Field(default=None, ge=1, description="null for any.")


class GroupStatus(BaseModel):
    """A consumer group of the source, as it was last translated."""

    group: str
    state: Literal["SYNCED", "ACTIVE_AT_TARGET", "CHECKPOINTED", "FAILED"]
    reason: str
    checkpoint_ms: int | None = Field(description="When it was last translated, in milliseconds since the epoch.")
    partitions: int


class GroupPartition(BaseModel):
    """A group's offset in one partition."""

    topic: str
    remote_topic: str
    partition: int
    source_offset: int
    target_offset: int | None = Field(description="null if nothing of the partition is known.")
    records_not_copied: int = Field(description="Records before the group's offset that are not at the target yet.")


class GroupSync(BaseModel):
    """The result of translating a group's offsets."""

    group: str
    written: bool = Field(description="Whether the offsets are the group's at the target now.")
    reason: str = Field(description="Why not; empty otherwise.")
    partitions: list[GroupPartition]
