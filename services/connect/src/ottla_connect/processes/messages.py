"""What a worker and the processes of its connectors and tasks say to each other. Pure.

Both speak over one stream socket: four bytes of length, then JSON. The first message says what the process is for;
`ToProcess` and `FromProcess` list all of them.
"""

from enum import StrEnum
from typing import Any

import msgspec

LENGTH_PREFIX_SIZE = 4
MESSAGE_BYTES_MAX = 64 * 1024 * 1024


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="message"):
    """Base of all messages."""


# From the worker: what the process is for. `worker` holds the worker's settings as they were written, by key;
# `settings` the connector's, in which references to config providers are still unresolved.


class RunConnector(Message, frozen=True, kw_only=True, tag="run-connector"):
    """Run a connector: start it, and answer with its tasks' settings now and whenever they change."""

    connector: str
    settings: dict[str, str]
    worker: dict[str, str]


class RunTask(Message, frozen=True, kw_only=True, tag="run-task"):
    """Run a task, once a lease allows it.

    `connector_settings` are those of the connector when `settings` were made; they name converters, transforms, and
    how errors are handled. `paused` says that the task is not to begin before a `SetPaused`.
    """

    connector: str
    task: int
    connector_settings: dict[str, str]
    settings: dict[str, str]
    worker: dict[str, str]
    paused: bool = False


class ListPlugins(Message, frozen=True, kw_only=True, tag="list-plugins"):
    """Import the plugin behind one entry point, and describe its classes: `PluginsListed`."""

    entry_point: str
    worker: dict[str, str]


class Validate(Message, frozen=True, kw_only=True, tag="validate"):
    """Validate a connector's settings: `Validated`.

    `plugins` are the classes of all plugins, so that a name that is none of theirs is refused before all have been
    imported; empty if the worker does not know them all.
    """

    settings: dict[str, str]
    worker: dict[str, str]
    plugins: "list[PluginDescription]" = []


class DescribeConfig(Message, frozen=True, kw_only=True, tag="describe-config"):
    """List the settings of any plugin class: `ConfigDescribed`."""

    plugin: str
    worker: dict[str, str]


class CheckOffsets(Message, frozen=True, kw_only=True, tag="check-offsets"):
    """Ask a connector whether its offsets may be set so: `OffsetsChecked`.

    Each pair is a partition and its offset, both as in Kafka Connect's REST API; an offset of None removes it.
    `removes_all` says that those are to be removed, too, that a sink keeps in its target.
    """

    connector: str
    settings: dict[str, str]
    worker: dict[str, str]
    offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    removes_all: bool = False


class ChangeOffsets(Message, frozen=True, kw_only=True, tag="change-offsets"):
    """Have a sink change the offsets that it keeps in its target, once a lease allows it: `OffsetsChanged`."""

    connector: str
    settings: dict[str, str]
    worker: dict[str, str]
    offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]


class FenceTasks(Message, frozen=True, kw_only=True, tag="fence-tasks"):
    """End the transactions of so many former tasks of a connector, and keep them from others: `TasksFenced`."""

    connector: str
    settings: dict[str, str]
    worker: dict[str, str]
    tasks: int


# From the worker, later.


class Lease(Message, frozen=True, kw_only=True, tag="lease"):
    """The task may work, or offsets be changed, until this time of CLOCK_BOOTTIME, in seconds.

    Behind it, another worker may have taken the task over: it must not poll, put, produce or commit until a later
    lease comes. A process that changes offsets ends then.
    """

    until_s: float


class SetPaused(Message, frozen=True, kw_only=True, tag="set-paused"):
    """Pause or go on; answered with `Paused` or `Running`."""

    paused: bool


class Stop(Message, frozen=True, kw_only=True, tag="stop"):
    """Finish what is on its way, commit, stop the plugin, say `Stopped`, and end."""


class OffsetsRead(Message, frozen=True, kw_only=True, tag="offsets-read"):
    """The answer to `ReadOffsets`: in its order; `error` is set instead when they could not be read."""

    request: int
    offsets: list[dict[str, Any] | None]
    error: str | None = None


class OffsetsCommitted(Message, frozen=True, kw_only=True, tag="offsets-committed"):
    """The answer to `CommitOffsets`; `error` is set when they are not stored."""

    request: int
    error: str | None = None


class TransactionsChecked(Message, frozen=True, kw_only=True, tag="transactions-checked"):
    """The answer to `CheckTransactions`; `error` says why the task may not write in transactions now."""

    request: int
    error: str | None = None


class OffsetKeysRead(Message, frozen=True, kw_only=True, tag="offset-keys-read"):
    """The answer to `ReadOffsetKeys`, in its order.

    The first key of each is that under which the offset is to be written, the others are to end. They are bytes, each
    as the character of its number.
    """

    request: int
    keys: list[list[str]]
    error: str | None = None


class SetLogLevel(Message, frozen=True, kw_only=True, tag="set-log-level"):
    """Log from this level (Python's name, such as ``DEBUG``) in the logger of this name and those below it."""

    logger: str
    level: str


# From the process.


class Running(Message, frozen=True, kw_only=True, tag="running"):
    """The connector or task has started, or goes on after a pause. `version` is the plugin's."""

    version: str = ""


class Paused(Message, frozen=True, kw_only=True, tag="paused"):
    """It has paused."""


class Outlook(StrEnum):
    """Whether starting anew helps after a failure."""

    FATAL = "fatal"
    """It does not, until somebody changes something."""
    OPEN = "open"
    """Nobody knows."""
    PASSING = "passing"
    """It does, sooner or later: something else is away or busy."""


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """It has failed, and the process ends."""

    reason: str
    trace: str
    outlook: Outlook


class Stopped(Message, frozen=True, kw_only=True, tag="stopped"):
    """It has stopped as it was asked to."""


class TaskConfigs(Message, frozen=True, kw_only=True, tag="task-configs"):
    """What a connector's tasks shall do, with references to config providers put back in place of their values."""

    configs: list[dict[str, str]]


class ReadOffsets(Message, frozen=True, kw_only=True, tag="read-offsets"):
    """Ask for the committed offsets of source partitions: `OffsetsRead`."""

    request: int
    partitions: list[dict[str, Any]]


class CommitOffsets(Message, frozen=True, kw_only=True, tag="commit-offsets"):
    """Store source offsets (pairs of partition and offset) whose records are acknowledged: `OffsetsCommitted`."""

    request: int
    offsets: list[tuple[dict[str, Any], dict[str, Any]]]


class TransactionCheck(StrEnum):
    """What a task that writes in transactions asks before it begins."""

    FORMER_TASKS_ARE_FENCED = "former-tasks-are-fenced"
    """That all tasks that the connector had before are fenced; it is done if it was not yet."""
    IS_CURRENT = "is-current"
    """That the task runs as everything says which was written until now."""


class CheckTransactions(Message, frozen=True, kw_only=True, tag="check-transactions"):
    """Ask whether the task may write in transactions: `TransactionsChecked`."""

    request: int
    check: TransactionCheck


class ReadOffsetKeys(Message, frozen=True, kw_only=True, tag="read-offset-keys"):
    """Ask under which keys the offsets of source partitions stand: `OffsetKeysRead`."""

    request: int
    partitions: list[dict[str, Any]]


class TopicsUsed(Message, frozen=True, kw_only=True, tag="topics-used"):
    """The task has used these topics for the first time since it runs."""

    topics: list[str]


class Measured(Message, frozen=True, kw_only=True, tag="measured"):
    """Readings of the task, all of them, every few seconds: the plugin's own and the runtime's."""

    values: dict[str, float]


class Progressed(Message, frozen=True, kw_only=True, tag="progressed"):
    """How the work of a task goes, for its status; replaces what it has said before."""

    progress: dict[str, Any]


class HealthTold(Message, frozen=True, kw_only=True, tag="health-told"):
    """Whether a connector or task that runs works or waits, for its status; replaces what it has said before."""

    health: dict[str, Any]


class PluginDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin class.

    Attributes:
        class_name: module and name.
        type: source, sink, transformation, predicate, converter, header_converter or configprovider, as in REST.
        version: its version.
        aliases: other names for it: the bare class name and those it declares.
    """

    class_name: str
    type: str
    version: str
    aliases: list[str]


class PluginsListed(Message, frozen=True, kw_only=True, tag="plugins-listed"):
    """The plugin classes behind an entry point; or why it cannot be imported."""

    plugins: list[PluginDescription]
    distribution: str = ""
    error: str | None = None


class Validated(Message, frozen=True, kw_only=True, tag="validated"):
    """A Kafka Connect `ConfigInfos` document."""

    infos: dict[str, Any]


class ConfigDescribed(Message, frozen=True, kw_only=True, tag="config-described"):
    """A list of Kafka Connect `ConfigKeyInfo` documents; or why there is none."""

    settings: list[dict[str, Any]]
    error: str | None = None


class OffsetsChecked(Message, frozen=True, kw_only=True, tag="offsets-checked"):
    """What is wrong with the offsets, empty if nothing; and which they are, with those that a sink keeps itself."""

    problems: list[str]
    offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]


class OffsetsChanged(Message, frozen=True, kw_only=True, tag="offsets-changed"):
    """The answer to `ChangeOffsets`; `error` is set when they are not changed."""

    error: str | None = None


class TasksFenced(Message, frozen=True, kw_only=True, tag="tasks-fenced"):
    """The answer to `FenceTasks`; `error` is set when some may still write."""

    error: str | None = None


Purpose = RunConnector | RunTask | ListPlugins | Validate | DescribeConfig | CheckOffsets | ChangeOffsets | FenceTasks
ToProcess = (
    Purpose
    | Lease
    | SetPaused
    | Stop
    | OffsetsRead
    | OffsetsCommitted
    | TransactionsChecked
    | OffsetKeysRead
    | SetLogLevel
)
Answer = PluginsListed | Validated | ConfigDescribed | OffsetsChecked | OffsetsChanged | TasksFenced
FromProcess = (
    Running
    | Paused
    | Failed
    | Stopped
    | TaskConfigs
    | ReadOffsets
    | CommitOffsets
    | CheckTransactions
    | ReadOffsetKeys
    | TopicsUsed
    | Measured
    | Progressed
    | HealthTold
    | Answer
)

_encoder = msgspec.json.Encoder()
_to_process: msgspec.json.Decoder[ToProcess] = msgspec.json.Decoder(ToProcess)
_from_process: msgspec.json.Decoder[FromProcess] = msgspec.json.Decoder(FromProcess)


def encode(message: Message) -> bytes:
    """Return a message with its length before it."""
    text = _encoder.encode(message)
    assert len(text) <= MESSAGE_BYTES_MAX, f"a {type(message).__name__} message of {len(text)} bytes is too long"
    return len(text).to_bytes(LENGTH_PREFIX_SIZE, "big") + text


def decode_to_process(text: bytes) -> ToProcess:
    """Return a message of the worker."""
    return _to_process.decode(text)


def decode_from_process(text: bytes) -> FromProcess:
    """Return a message of a process.

    Raises:
        msgspec.MsgspecError: the text is no message.
    """
    return _from_process.decode(text)
