"""What is used of quotas, kept for those who share it: bounded, and nothing is forgotten that counts still. Pure.

Clients choose their client ids, and each may have a use of its own. When the table is full, uses make way that no
longer count: a rate without use in its window, a bucket that is full. Where all of them count, newcomers share one
use with others that have the same limit, and one user cannot fill more than its part of the table. So no client rids
others or itself of what was used, however many client ids it names; and what those with a high limit use does not
count against those with a low one.

A use that made way may still be referred to. It says that it is not kept, and `of` has to be asked for the one to go
on with; those who share a quota then meet at the same use again.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

LOOKED_AT_MAX: Final = 16
"""How many uses are looked at to find one that makes way: bounds what a new client costs."""
LIMITS_MAX: Final = 1000
"""Limits that have a shared use of their own; beyond, the newcomers of all others share one."""
PART_OF_ONE_USER: Final = 0.5
"""How much of the table may be of one user's clients; with one user, such as `ANONYMOUS`, much has to be."""


class Usage(Protocol):
    """What was used lately.

    Attributes:
        is_kept: whether it is the one that all go by who share the quota.
    """

    is_kept: bool

    def is_over(self, now_ms: int) -> bool:
        """Return whether nothing of it counts any more."""


Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept", bound=Usage)


class UsageTable(Generic[Key, Kept]):
    """Uses of one kind of quota.

    Args:
        make: makes one of which nothing is used.
        most: how many are kept.
    """

    def __init__(self, make: Callable[[], Kept], most: int) -> None:
        self._make = make
        self._most = most
        self._shared: OrderedDict[float, Kept] = OrderedDict()
        self._of_other_limits = make()
        self._uses: OrderedDict[Key, tuple[Kept, str]] = OrderedDict()
        self._of_user: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._uses)

    def of(self, key: Key, user: str, limit: float, now_ms: int) -> Kept:
        """Return the use to go by.

        Args:
            key: of those who share it.
            user: of whose clients one asks for it first.
            limit: that holds for them.
            now_ms: by a clock that does not go back.
        """
        found = self._uses.get(key)
        if found is not None:
            return found[0]
        if self._of_user[user] >= self._most * PART_OF_ONE_USER or len(self._uses) >= self._most:
            self._make_way(now_ms)
        if self._of_user[user] >= self._most * PART_OF_ONE_USER or len(self._uses) >= self._most:
            return self._shared_of(limit, now_ms)
        made = self._make()
        made.is_kept = True
        self._uses[key] = (made, user)
        self._of_user[user] += 1
        return made

    def clear(self) -> None:
        """Forget everything."""
        while self._uses:
            self._drop_first()
        self._shared.clear()
        self._of_other_limits = self._make()

    def _shared_of(self, limit: float, now_ms: int) -> Kept:
        """Return the use of the newcomers that have a limit."""
        found = self._shared.get(limit)
        if found is not None:
            return found
        for _ in range(min(LOOKED_AT_MAX, len(self._shared)) if len(self._shared) >= LIMITS_MAX else 0):
            first, use = next(iter(self._shared.items()))
            if use.is_over(now_ms):
                del self._shared[first]
            else:
                self._shared.move_to_end(first)
        if len(self._shared) >= LIMITS_MAX:
            return self._of_other_limits
        made = self._shared[limit] = self._make()
        return made

    def _make_way(self, now_ms: int) -> None:
        """Drop those that are over among the ones that were not looked at for the longest time."""
        for _ in range(min(LOOKED_AT_MAX, len(self._uses))):
            key, (use, _) = next(iter(self._uses.items()))
            if use.is_over(now_ms):
                self._drop_first()
            else:
                self._uses.move_to_end(key)

    def _drop_first(self) -> None:
        _, (use, user) = self._uses.popitem(last=False)
        use.is_kept = False
        self._of_user[user] -= 1
        if not self._of_user[user]:
            del self._of_user[user]
