"""The tree of commands: every group and command that `ottla` has, in the order in which help shows them.

A command is named by its module and function, and described by the first sentence of the function's docstring, which
a test compares. So help and the choice of a command import none of their modules: only the command that is carried
out, or whose own help is shown, is imported.
"""

from typing import Annotated, Any

import typer

from ottla import completion
from ottla.lazy_commands import CONTEXT_SETTINGS, Command, Group, LazyGroup
from ottla.profiles.profile_choice import PROFILE_VARIABLE, choose_profile

WITHOUT_PROFILE = frozenset({"up", "down", "status", "logs", "log", "profile", "secure"})
"""Commands that are about this machine, whatever profile is in use, and those that mend profiles."""

_CLUSTER = Group(
    "Brokers, and where replicas and leaders are.",
    {
        "describe": Command(
            "cluster:describe",
            "Show brokers with their racks, replicas, leaders and disk, and the partitions that are not as they "
            "should be.",
        ),
        "elect-leaders": Command(
            "cluster:elect_leaders",
            "Have partitions led by their preferred replica, the first one, if it is in sync.",
        ),
        "rebalance": Command(
            "cluster_rebalance:rebalance",
            "Even out replicas, leaders and disk over brokers and racks, with few moves.",
        ),
        "decommission": Command(
            "cluster_rebalance:decommission", "Move everything off a broker, so that it can be stopped for good."
        ),
        "reassign": Command(
            "cluster_reassign:reassign", "Move partitions to other brokers, or give them more or fewer replicas."
        ),
        "backup": Command(
            "cluster_backup:backup",
            "Write the cluster's state into one file: topics, settings, links, in-sync replicas, no records.",
        ),
        "restore": Command("cluster_backup:restore", "Write the state of a backup into an etcd that has none."),
        "recover": Group(
            "Rebuild the cluster's state after etcd was lost.",
            {
                "local": Command(
                    "cluster_recover:local",
                    "Do all of it for a local cluster that is stopped and has lost its etcd.",
                ),
                "inspect": Command(
                    "cluster_recover:inspect",
                    "Write down what the log directories of a stopped broker know of its cluster; nothing in them is "
                    "changed.",
                ),
                "plan": Command(
                    "cluster_recover:plan",
                    "Show what a recovery would write into etcd; needs no etcd, and changes nothing.",
                ),
                "apply": Command(
                    "cluster_recover:apply",
                    "Write the state into an empty etcd, after showing the plan; run it again if it was cut short.",
                ),
            },
        ),
        "features": Group(
            "Levels of features: which formats the cluster may use.",
            {
                "show": Command(
                    "cluster_features:show",
                    "Show the level of each feature that the cluster is at, and those that all its brokers have.",
                ),
                "upgrade": Command(
                    "cluster_features:upgrade",
                    "Have the cluster use the formats of a newer release, once every process runs it.",
                ),
                "downgrade": Command(
                    "cluster_features:downgrade",
                    "Have the cluster write what a former release reads, so that its processes may come back.",
                ),
            },
        ),
    },
)
_CONNECT = Group(
    "Connectors: make, watch and steer them.",
    {
        "create": Command(
            "connect_definitions:create",
            "Create connectors from files: their settings, or what Kafka Connect's REST API takes; several may "
            "be in one.",
        ),
        "validate": Command("connect_definitions:validate", "Check connectors without creating them."),
        "list": Command(
            "connect_state:list_",
            "List the connectors with their states, and what keeps any from its work; exits with 1 if something "
            "does.",
        ),
        "status": Command(
            "connect_state:status",
            "Show connectors and their tasks, and what keeps any from its work; exits with 1 if something does.",
        ),
        "config": Command("connect_definitions:config", "Show a connector's settings, or change some of them."),
        "restart": Command(
            "connect_state:restart",
            "Restart connectors: each's own process, with --tasks also its tasks, or one task alone.",
        ),
        "pause": Command(
            "connect_state:pause", "Pause connectors: their tasks keep what they have open, but do nothing."
        ),
        "resume": Command("connect_state:resume", "Have connectors go on that were paused or stopped."),
        "stop": Command("connect_state:stop", "Stop connectors: their tasks end, their settings and offsets stay."),
        "delete": Command("connect_definitions:delete", "Delete connectors."),
        "offsets": Group(
            "Where a connector is; where it shall go on.",
            {
                "show": Command(
                    "connect_offsets:show",
                    "Show a connector's offsets: a source's own, or those of a sink's consumer group.",
                ),
                "set": Command(
                    "connect_offsets:set_",
                    "Set offsets of a stopped connector; partitions that are not named keep theirs.",
                ),
                "reset": Command(
                    "connect_offsets:reset",
                    "Remove all offsets of a stopped connector: it begins anew when it is resumed.",
                ),
            },
        ),
        "logs": Command("connect_logs:logs", "Show the last log lines of a connector's own process, or of a task."),
        "plugins": Command(
            "connect_plugins:plugins",
            "List the plugin classes that the workers have, and plugins that cannot be imported; or a class's "
            "settings.",
        ),
        "new-plugin": Command(
            "connect_plugins:new_plugin",
            "Write a plugin project to start from: a source, a sink, their settings, and tests that pass.",
        ),
    },
)
_MIRROR = Group(
    "Mirroring: one cluster follows another.",
    {
        "create": Command(
            "mirror_flows:create", "Create a flow: its workers copy topics from a source to a target from now on."
        ),
        "list": Command(
            "mirror_state:list_",
            "List the flows with their states and lags, and what keeps any from its work; exits with 1 if something "
            "does.",
        ),
        "status": Command(
            "mirror_state:status",
            "Show flows with their workers and topics, and what keeps any from its work; exits with 1 if something "
            "does.",
        ),
        "lag": Command(
            "mirror_state:lag",
            "Show how far targets are behind their sources, in records, bytes and time, and when they will have "
            "caught up.",
        ),
        "pause": Command("mirror_flows:pause", "Pause flows: nothing is copied until they are resumed."),
        "resume": Command("mirror_flows:resume", "Have flows go on that were paused."),
        "throttle": Command(
            "mirror_flows:throttle", "Limit how many bytes a flow copies per second, by all workers together."
        ),
        "delete": Command("mirror_flows:delete", "Delete flows."),
        "group": Group(
            "Consumer groups that move to the target.",
            {
                "list": Command(
                    "mirror_flows:group_list",
                    "List the source's groups whose offsets a flow translates, with their states.",
                ),
                "sync": Command(
                    "mirror_flows:group_sync",
                    "Translate groups' offsets now, and say per partition what is not copied yet.",
                ),
            },
        ),
        "link": Group(
            "Linked topics: they follow another cluster's, offset by offset.",
            {
                "create": Command(
                    "mirror_links:create",
                    "Link to another cluster: topics here follow its topics, with the same names, offsets and "
                    "batches.",
                ),
                "list": Command("mirror_links:list_", "List the links with their topics, and how far behind."),
                "status": Command(
                    "mirror_links:status",
                    "Show how far linked partitions have come, and what keeps any from following; exits with 1 if "
                    "something does.",
                ),
                "refresh": Command(
                    "mirror_links:refresh",
                    "Bring a link in step with its source now: topics, partitions, settings, offsets of groups.",
                ),
                "alter": Command(
                    "mirror_link_changes:alter",
                    "Change which topics and groups a link follows, and how brokers keep it in step.",
                ),
                "pause": Command(
                    "mirror_link_changes:pause", "Pause links: nothing is fetched until they are resumed."
                ),
                "resume": Command("mirror_link_changes:resume", "Have links go on that were paused."),
                "throttle": Command(
                    "mirror_link_changes:throttle",
                    "Limit how many bytes each broker fetches through a link per second.",
                ),
                "promote": Command(
                    "mirror_link_changes:promote", "Have linked topics follow no longer and take writes."
                ),
                "reverse": Command(
                    "mirror_reverse:reverse",
                    "Have a former source follow the cluster that was promoted, after what it has alone was shown.",
                ),
                "delete": Command(
                    "mirror_link_changes:delete",
                    "Delete links that no topic follows any more: promote or delete the topics first.",
                ),
            },
        ),
        "verify": Command(
            "mirror_verify:verify",
            "Compare a source's topics with their copies, partition by partition, and say where they first differ.",
        ),
    },
)
TREE = Group(
    "Ottla: a streaming platform that speaks the Kafka protocol.\n\n"
    "Start a cluster with [bold]ottla up[/bold], then use it with any Kafka client or with the commands below. "
    "Every command explains itself: [bold]ottla COMMAND --help[/bold].",
    {
        "up": Command(
            "up:up",
            "Start a local cluster: etcd, controllers, group coordinators, brokers, Connect and mirror workers as "
            "processes.",
        ),
        "status": Command(
            "local_cluster:status",
            "Show a local cluster's processes, each asked for its health, and whether all partitions have leaders.",
        ),
        "down": Command(
            "local_cluster:down", "Stop a local cluster cleanly, and return when all its processes have gone."
        ),
        "doctor": Command(
            "doctor:doctor", "Say what is wrong with a cluster, in the order of harm, and the command that helps."
        ),
        "top": Command("top:top", "Show what goes on in a cluster: brokers, topics and groups, again and again."),
        "logs": Command("logs:logs", "Show the logs of a local cluster's processes, in the order of time."),
        "produce": Command("produce:produce", "Publish lines."),
        "consume": Command("consume:consume", "Read records."),
        "topic": Group(
            "Create, list, describe, alter and delete topics.",
            {
                "create": Command("topic:create", "Create topics."),
                "list": Command("topic:list_", "List the topics with their partitions and replicas."),
                "describe": Command(
                    "topic:describe", "Show each partition's leader, replicas, in-sync replicas and offsets."
                ),
                "alter": Command("topic:alter", "Give topics more partitions, or more or fewer replicas."),
                "delete": Command("topic:delete", "Delete topics and all their records."),
            },
        ),
        "config": Group(
            "Show and change settings of topics, brokers and subscriptions to clients' metrics.",
            {
                "list": Command("config:list_", "List the subscriptions to clients' metrics."),
                "describe": Command(
                    "config:describe", "Show settings: those that were set, or with --all every one."
                ),
                "set": Command("config:set_", "Set settings and leave the others as they are."),
                "delete": Command("config:delete", "Put settings back to their defaults."),
            },
        ),
        "group": Group(
            "List, describe, reset and delete consumer groups.",
            {
                "list": Command("group:list_", "List the consumer groups with their state and type."),
                "describe": Command(
                    "group:describe",
                    "Show how far groups have come: for each partition the committed offset, the lag, and who "
                    "reads it.",
                ),
                "members": Command("group:members", "Show who is in groups, and what each member reads."),
                "delete": Command(
                    "group:delete", "Delete groups without members, and the offsets they have committed."
                ),
                "reset-offsets": Command("group_offsets:reset_offsets", "Make a group go on somewhere else."),
            },
        ),
        "transaction": Group(
            "List and describe transactions, and end those that hang.",
            {
                "list": Command("transaction:list_", "List transactional ids with their producer id and state."),
                "describe": Command(
                    "transaction:describe",
                    "Show what coordinators know of transactional ids: state, producer, since when, and which "
                    "partitions.",
                ),
                "find-hanging": Command(
                    "transaction:find_hanging",
                    "Find transactions that stay open in partitions although no coordinator will end them.",
                ),
                "abort": Command(
                    "transaction:abort",
                    "Abort a transaction that hangs in a partition: who reads committed records never gets its "
                    "records.",
                ),
            },
        ),
        "user": Group(
            "List, create and delete users who log in by SCRAM, and change passwords.",
            {
                "list": Command(
                    "user:list_", "List the users of SCRAM, with the mechanisms for which they have a password."
                ),
                "create": Command("user:create", "Create a user who logs in by SCRAM."),
                "password": Command("user:password", "Change a user's password."),
                "delete": Command("user:delete", "Delete a user, or the password for one mechanism."),
            },
        ),
        "acl": Group(
            "List, add and remove what users may do, or have a file say it.",
            {
                "list": Command("acl:list_", "List access control lists."),
                "add": Command("acl:add", "Allow a user something, or deny it."),
                "remove": Command("acl:remove", "Take back what was allowed, or with --deny what was denied."),
                "apply": Command("acl:apply", "Give principals the rights that a file says, and no others."),
            },
        ),
        "quota": Group(
            "List, set and remove quotas of clients.",
            {
                "list": Command("quota:list_", "List the quotas of clients."),
                "set": Command("quota:set_", "Set quotas of a user, of a client id, of both, or of an address."),
                "remove": Command(
                    "quota:remove", "Remove quotas of a user, of a client id, of both, or of an address."
                ),
            },
        ),
        "connect": _CONNECT,
        "mirror": _MIRROR,
        "cluster": _CLUSTER,
        "log": Group(
            "Look into a broker's log files.",
            {
                "dump": Command(
                    "log:dump",
                    "Show what is in segments, indexes, snapshots and checkpoints, with the names of Kafka's "
                    "DumpLogSegments.",
                )
            },
        ),
        "bench": Group(
            "Measure any Kafka cluster: produce, consume, latency.",
            {
                "produce": Command("bench:produce", "Publish as fast as possible, or at a steady rate."),
                "consume": Command("bench:consume", "Read a topic as fast as possible."),
                "latency": Command(
                    "bench:latency",
                    "Publish one record at a time and read it back: time to acknowledgement, and end to end.",
                ),
            },
        ),
        "secure": Group(
            "Certificates of a cluster's processes, and its users in etcd.",
            {
                "init": Command(
                    "secure:init",
                    "Make an authority, and certificates of all processes of a cluster and of an administrator.",
                ),
                "renew": Command(
                    "secure:renew",
                    "Replace the certificates; a running cluster takes them up by itself, within seconds, and no "
                    "request fails.",
                ),
                "show": Command(
                    "secure:show",
                    "Show for whom the certificates are, and until when; the exit code is 1 if one ends within 30 "
                    "days.",
                ),
                "etcd-users": Command(
                    "secure:etcd_users",
                    "Make the users that the cluster's processes are to etcd, and have etcd ask for them.",
                ),
                "rest-user": Command(
                    "secure:rest_user",
                    "Set the password of a user of workers' REST APIs in a file, hashed, or delete the user.",
                ),
            },
        ),
        "profile": Group(
            "Several clusters: their addresses and client settings under names.",
            {
                "create": Command("profile:create", "Make a profile."),
                "use": Command(
                    "profile:use",
                    "Use a profile in every command from now on, where neither --profile nor OTTLA_PROFILE "
                    "names another one.",
                ),
                "list": Command("profile:list_", "List the profiles."),
                "show": Command("profile:show", "Show a profile."),
                "delete": Command("profile:delete", "Delete a profile; nothing happens to its cluster."),
            },
        ),
    },
)


class AllCommands(LazyGroup):
    """The group of all commands: those of `TREE`, and those of plugins."""

    tree = TREE
    has_plugins = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command's name; --profile may also stand behind it."""
        return super().parse_args(ctx, _profile_first(args))


def _profile_first(arguments: list[str]) -> list[str]:
    """Return the arguments with --profile, which all commands have, in front of the command's name."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for position, argument in enumerate(arguments[:end]):
        if argument == "--profile" or argument.startswith("--profile="):
            count = 2 if argument == "--profile" else 1
            taken = arguments[position : position + count]
            return [*taken, *arguments[:position], *arguments[position + count :]]
    return arguments


app = typer.Typer(
    name="ottla",
    cls=AllCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT_SETTINGS,
    help=TREE.summary,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"ottla {version('ottla')}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar=PROFILE_VARIABLE,
            autocompletion=completion.profiles,
            metavar="NAME",
            help="Use this profile; see `ottla profile`.",
        ),
    ] = None,
) -> None:
    if ctx.invoked_subcommand not in WITHOUT_PROFILE:
        source = ctx.get_parameter_source("profile")
        choose_profile(profile, is_typed=source is not None and source.name == "COMMANDLINE")
