"""The screen of `ottla top` keeps within a terminal."""

from ottla.top.screen import screen
from ottla_operations.activity.activity import Activity, BrokerActivity

BROKER = BrokerActivity(
    broker=1, rack=None, leads=3, replicas=3, behind=0, written_bytes_per_s=0.0, log_bytes=989, free_bytes=46 << 30
)
SHOWN = Activity(cluster_id="id", brokers=(BROKER,) * 30, topics=(), groups=(), not_seen=("broker 2 is away",))


def test_no_line_is_wider_and_the_title_is_there() -> None:
    lines = screen(SHOWN, title="cluster id, every 2 s; q quits", lines=12, width=40).split("\n")

    assert lines[0] == "cluster id, every 2 s; q quits"
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 40


def test_without_a_terminal_nothing_is_cut() -> None:
    text = screen(SHOWN, title="t")

    assert text.count("989 B") == 30
