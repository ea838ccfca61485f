"""How far the search for offsets that nobody needs has come; `offsets/expiry.py` goes by it. Pure."""


class OffsetCleanup:
    """How far the present look through the groups has come.

    Attributes:
        waiting_groups: ids of groups still to be looked at; none between two rounds.
        look_again: whether a topic was deleted during the present round, so that another must follow at once.
        deletions_seen: the revision of the last deletion of a topic that a round was begun for.
    """

    def __init__(self) -> None:
        self.waiting_groups: list[str] = []
        self.look_again = False
        self.deletions_seen = 0
