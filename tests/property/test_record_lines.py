"""Whatever a record holds survives `consume --format record` and `produce --format record`."""

from hypothesis import given
from hypothesis import strategies as st

from ottla_operations.records.record_line import Format, LineOptions, Record, record_reader, record_writer

data = (
    st.none() | st.binary(max_size=50) | st.text(max_size=50).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
records = st.builds(
    Record,
    key=data,
    value=data,
    headers=st.lists(st.tuples(st.text(max_size=10), data), max_size=4).map(tuple),
    timestamp=st.none() | st.integers(0, 2**50),
    partition=st.none() | st.integers(0, 1000),
)
OPTIONS = LineOptions(Format.RECORD)


@given(records)
def test_a_record_is_one_line_and_comes_back_whole(record):
    line = record_writer(OPTIONS)(record)
    assert line.count(b"\n") == 1
    assert record_reader(OPTIONS)(line) == record
