"""Records of one table may be written in another order, if that makes no difference: compared with a simple model."""

from hypothesis import given
from hypothesis import strategies as st

from ottla_sdk import SinkRecord
from ottla_sql.sink.row_plan import RowPlan, arranged, fields_of_values


def same(key):
    """As the model compares; of 3 it is not known."""
    return None if key == 3 else key


COLUMNS = (("key", "a"), ("key", "a", "b"), ("key", "b"))
WRITES = [RowPlan("t", False, ["key"], fields_of_values(names), (), [same], lambda *_: None) for names in COLUMNS]
DELETE = RowPlan("t", True, ["key"], fields_of_values(["key"]), (), [same], lambda *_: None)
PLANS = [*WRITES, DELETE]

steps = st.lists(st.tuples(st.sampled_from(range(len(PLANS))), st.integers(0, 3)), max_size=30)


def runs_of(chosen):
    """Runs as the writer makes them: neighbours of the same plan together."""
    runs = []
    for number, (plan, key) in enumerate(chosen):
        value = {"key": key, "a": number, "b": -number}
        record = SinkRecord(topic="t", value=value, offset=number)
        if runs and runs[-1][0] is PLANS[plan]:
            runs[-1][1].append(record)
        else:
            runs.append((PLANS[plan], [record]))
    return runs


def upserted(runs):
    """What the runs make of an empty table."""
    table = {}
    for plan, records in runs:
        for record in records:
            key = record.value["key"]
            if plan.deletes:
                table.pop(key, None)
            else:
                names = COLUMNS[WRITES.index(plan)]
                table.setdefault(key, {}).update({name: record.value[name] for name in names})
    return table


@given(steps)
def test_upserts_and_deletes_have_the_same_effect_as_one_after_the_other(chosen):
    runs = runs_of(chosen)
    assert upserted(arranged(runs, inserts=False)) == upserted(runs)


@given(steps)
def test_inserts_are_all_there_and_deletes_are_not_moved(chosen):
    runs = runs_of(chosen)
    made = arranged(runs, inserts=True)
    assert sorted(each.offset for _, records in made for each in records) == list(range(len(chosen)))
    if any(plan is DELETE for plan, _ in runs):
        assert made == runs
    else:
        assert len(made) <= len(WRITES)


def test_many_alternating_upserts_and_deletes_become_two_statements():
    chosen = [(3 if number % 2 else 0, number + 4) for number in range(100)]
    assert [(plan.deletes, len(records)) for plan, records in arranged(runs_of(chosen), inserts=False)] == [
        (True, 50),
        (False, 50),
    ]


def test_where_it_is_not_known_which_keys_are_the_same_nothing_is_moved():
    runs = runs_of([(0, 1), (3, 2), (0, 3), (3, 1)])
    assert arranged(runs, inserts=False) == runs
