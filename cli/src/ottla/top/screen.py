"""The activity of a cluster as lines of text, as many as there is room for. Pure."""

from collections.abc import Sequence

from ottla.text_table import table_text
from ottla_operations.activity.activity import Activity, BrokerActivity, GroupActivity, TopicActivity
from ottla_operations.quantities import human_bytes

HEAD_LINES = 4
"""Of a table: an empty line, the columns, the line below them, and how many more rows there are."""
UNKNOWN = "-"

BROKER_COLUMNS = ("BROKER", "RACK", "LEADS#", "REPLICAS#", "BEHIND#", "WRITTEN/S#", "LOGS#", "FREE#")
TOPIC_COLUMNS = ("TOPIC", "PARTITIONS#", "RECORDS/S#", "SIZE#", "UNDER-REPLICATED#", "OFFLINE#")
GROUP_COLUMNS = ("GROUP", "STATE", "READ/S#", "LAG#", "CAUGHT UP IN#")


def screen(shown: Activity, *, title: str, lines: int | None = None, width: int | None = None) -> str:
    """Return text of at most so many lines and columns; None: of all there is.

    What is wider is cut: a terminal would wrap it, and push the title off the screen.
    """
    brokers = [_broker_row(each) for each in shown.brokers]
    topics = [_topic_row(each) for each in shown.topics]
    groups = [_group_row(each) for each in shown.groups]
    tables = [(BROKER_COLUMNS, brokers), (TOPIC_COLUMNS, topics), (GROUP_COLUMNS, groups)]
    room = None if lines is None else max(3, lines - 1 - HEAD_LINES * len(tables) - len(shown.not_seen))
    counts = _shares([len(rows) for _, rows in tables], room)
    parts = [title, *(f"could not look: {each}" for each in shown.not_seen)]
    for (columns, rows), count in zip(tables, counts, strict=True):
        if rows:
            parts.append(table_text(columns, rows[:count], width=width).rstrip("\n"))
            parts += [f"and {len(rows) - count:,} more"] if count < len(rows) else []
    shown_lines = "\n".join(parts).split("\n")[:lines]
    return "\n".join(line[:width] for line in shown_lines)


def _shares(wanted: Sequence[int], room: int | None) -> list[int]:
    """Return how many rows each table gets: what it needs, or an equal part of what the smaller ones leave."""
    if room is None or sum(wanted) <= room:
        return list(wanted)
    shares = [0] * len(wanted)
    left, open_tables = room, sorted(range(len(wanted)), key=lambda each: wanted[each])
    for taken, table in enumerate(open_tables):
        shares[table] = min(wanted[table], left // (len(wanted) - taken))
        left -= shares[table]
    return shares


def _broker_row(each: BrokerActivity) -> tuple[object, ...]:
    return (
        each.broker, each.rack or UNKNOWN, each.leads, each.replicas, each.behind,
        human_bytes(each.written_bytes_per_s),
        UNKNOWN if each.log_bytes is None else human_bytes(each.log_bytes),
        UNKNOWN if each.free_bytes is None else human_bytes(each.free_bytes),
    )  # fmt: skip


def _topic_row(each: TopicActivity) -> tuple[object, ...]:
    size = human_bytes(each.log_bytes)
    return each.topic, each.partitions, _rate(each.records_per_s), size, each.under_replicated, each.offline


def _group_row(each: GroupActivity) -> tuple[object, ...]:
    if each.lag is None:
        return each.group, each.state, _rate(each.records_per_s), UNKNOWN, UNKNOWN
    left = "never" if each.seconds_left is None else "now" if each.lag == 0 else f"{each.seconds_left:,.0f} s"
    return each.group, each.state, _rate(each.records_per_s), f"{each.lag:,}", left


def _rate(records_per_s: float) -> str:
    return f"{records_per_s:,.0f}"
