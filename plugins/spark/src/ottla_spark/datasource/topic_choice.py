"""Which topics a pattern means."""

import re
from collections.abc import Iterable

# Kafka's own topics are read only by those who name them.
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def chosen_topics(names: Iterable[str], regex: str) -> list[str]:
    """Return the names that match as a whole, without internal ones, in order."""
    pattern = re.compile(regex)
    return sorted(name for name in names if name not in INTERNAL and pattern.fullmatch(name))
