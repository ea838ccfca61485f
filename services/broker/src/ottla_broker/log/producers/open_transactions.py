"""Where the transactions of one log begin that are not over for its readers: the *unstable* ones. Pure.

A transaction is open from its first batch to its marker. With the marker it is decided, but as long as that is not
replicated another leader may not know it; so it counts as unstable until the high watermark has passed the marker.
Readers of committed records stop at the first unstable offset. Source: `ongoingTxns` and `unreplicatedTxns` of
Kafka's ProducerStateManager.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable


class OpenTransactions:
    """The unstable transactions of one log.

    Those that are open are kept in the order in which they began, which is that of their first offsets. Of the ended
    ones only those are kept that may be the first unstable one at some time: no other one that ended later began
    before them.

    Attributes:
        may_be_unstable: whether there may be any; most logs have no transactions, and are asked with each fetch.
    """

    __slots__ = ("_ended", "_open", "may_be_unstable")

    def __init__(self, began: Iterable[tuple[int, int]] = ()) -> None:
        """Begin with transactions that are open, given as first offsets and producer ids."""
        self._open = OrderedDict(sorted(began))
        self._ended: deque[tuple[int, int]] = deque()
        self.may_be_unstable = bool(self._open)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def kept_count(self) -> int:
        """How many are kept, open and ended."""
        return len(self._open) + len(self._ended)

    def __contains__(self, first_offset: int) -> bool:
        return first_offset in self._open

    def begin(self, first_offset: int, producer_id: int) -> None:
        """Note that a transaction begins, at the log's end."""
        self._open[first_offset] = producer_id
        self.may_be_unstable = True

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Note that an open transaction has ended; return the first offset that is undecided now."""
        self._open.pop(first_offset, None)
        ended = self._ended
        while ended and ended[-1][1] >= first_offset:
            ended.pop()
        ended.append((marker_offset, first_offset))
        self.may_be_unstable = True
        return next(iter(self._open), marker_offset + 1)

    def forget_replicated(self, high_watermark: int) -> None:
        """Forget the ended transactions whose markers are replicated."""
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the first transaction begins that is open, or whose marker is not replicated; None if none."""
        self.forget_replicated(high_watermark)
        ended = self._ended
        undecided = next(iter(self._open), None)
        if not ended:
            self.may_be_unstable = undecided is not None
            return undecided
        return ended[0][1] if undecided is None else min(ended[0][1], undecided)

    def first_open(self) -> int | None:
        """Return the producer id of the transaction that has been open longest, or None."""
        return next(iter(self._open.values()), None)
