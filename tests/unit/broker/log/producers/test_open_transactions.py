"""The first unstable offset, against a plain list of transactions."""

from hypothesis import given
from hypothesis import strategies as st

from ottla_broker.log.producers.open_transactions import OpenTransactions


@given(st.data())
def test_the_first_unstable_offset_is_that_of_a_plain_list(data: st.DataObject) -> None:
    transactions = OpenTransactions([(3, 101), (1, 100)])
    open_now, ended = {1: 100, 3: 101}, []
    offset, high_watermark = 4, 0
    for _ in range(data.draw(st.integers(0, 40))):
        if open_now and data.draw(st.booleans()):
            first = data.draw(st.sampled_from(sorted(open_now)))
            del open_now[first]
            assert transactions.end(first, offset) == min(open_now, default=offset + 1)
            ended.append((first, offset))
        else:
            transactions.begin(offset, offset)
            open_now[offset] = offset
        offset += data.draw(st.integers(1, 3))
        high_watermark = data.draw(st.integers(high_watermark, offset))
        unstable = [*open_now, *(first for first, marker in ended if marker >= high_watermark)]
        assert transactions.first_unstable_offset(high_watermark) == min(unstable, default=None)
        assert len(transactions) == len(open_now)
        assert transactions.kept_count <= len(open_now) + sum(marker >= high_watermark for _, marker in ended)
        assert transactions.first_open() == (open_now[min(open_now)] if open_now else None)
