"""How many replicas partitions of a local cluster get where nobody says how many. Pure."""

REPLICAS_MAX = 3


def default_replicas(brokers: int) -> int:
    """Return how many: one on every broker, up to `REPLICAS_MAX`."""
    return min(REPLICAS_MAX, brokers)
