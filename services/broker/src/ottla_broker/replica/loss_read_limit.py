"""Up to where followers may read a leader's log that lacks records in its middle."""

from collections.abc import Callable


def end_at_loss(
    offset: int,
    lost_from: int,
    end_offset: int,
    *,
    contiguous_end: Callable[[int], int],
    another_may_reach_beyond: Callable[[int], bool],
) -> int:
    """Return up to where a follower may read from an offset on, for what is lost here begins at another one.

    With what comes behind a loss, a follower whose log ends before it, or within it, would pass for complete, and
    could take this replica's place. So that waits while another one may have what is lost: that one is to lead as
    soon as it has the rest. Which of the gaps behind the first loss are losses as well nobody can tell.

    Args:
        offset: where the follower's log ends.
        lost_from: the first offset that is known to be lost.
        end_offset: up to where it could read otherwise.
        contiguous_end: returns where the first gap behind an offset begins.
        another_may_reach_beyond: whether another follower's log may go beyond an offset.
    """
    if not another_may_reach_beyond(max(offset, lost_from)):
        return end_offset
    loss = lost_from if offset <= lost_from else contiguous_end(offset)
    return loss if loss < end_offset and another_may_reach_beyond(loss) else end_offset
