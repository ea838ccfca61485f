"""Where a follower cuts its log."""

from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry, LeaderEpochs
from ottla_broker.replica.follower_replica import truncation_offset


class Log:
    """Epochs, with where each starts, and an end."""

    def __init__(self, *starts: tuple[int, int], end: int) -> None:
        self.epochs = LeaderEpochs(EpochEntry(*start) for start in starts)
        self.log_end_offset = end

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def truncate(self, offset: int) -> None:
        self.log_end_offset = min(self.log_end_offset, offset)
        self.epochs.truncate_from_end(offset)


def agree(follower: Log, leader: Log) -> int:
    """Cut the follower's log until it agrees with the leader's; return how often it was cut."""
    cuts = 0
    while follower.epochs.latest >= 0:
        epoch, end = leader.end_offset_for_epoch(follower.epochs.latest)
        if epoch == follower.epochs.latest and end >= follower.log_end_offset:
            break
        follower.truncate(truncation_offset(follower, epoch, end))
        cuts += 1
        assert cuts < 10, "it does not come to an end"
    return cuts


def test_a_log_with_more_of_an_epoch_is_cut_where_the_leader_ends_it() -> None:
    follower, leader = Log((0, 0), end=20), Log((0, 0), (1, 15), end=18)
    assert agree(follower, leader) == 1
    assert follower.log_end_offset == 15


def test_an_epoch_that_the_leader_never_had_goes_altogether() -> None:
    follower, leader = Log((0, 0), (2, 10), end=30), Log((0, 0), (1, 12), (3, 14), end=20)
    agree(follower, leader)
    assert follower.log_end_offset == 10


def test_logs_that_crossed_several_epochs_agree_step_by_step() -> None:
    follower = Log((0, 0), (2, 10), (4, 20), end=30)
    leader = Log((0, 0), (1, 5), (3, 12), (5, 25), end=40)
    agree(follower, leader)
    assert follower.log_end_offset == 5


def test_an_epoch_without_records_is_given_up_without_losing_any() -> None:
    follower, leader = Log((0, 0), (2, 10), end=10), Log((0, 0), (3, 10), end=12)
    assert agree(follower, leader) == 1
    assert follower.log_end_offset == 10


def test_a_log_that_knows_no_such_epoch_is_cut_at_the_leaders_end_of_it() -> None:
    assert truncation_offset(Log(end=7), 3, 5) == 5
