"""Which uses make way, and which are never forgotten."""

import random

from ottla_broker.quotas.sampled_rate import RateWindow, SampledRate, TokenBucket
from ottla_broker.quotas.usage_table import LIMITS_MAX, LOOKED_AT_MAX, UsageTable

WINDOW = RateWindow(samples=11, sample_ms=1000)
MOST = 20
LIMIT = 100.0


def rates(most: int = MOST) -> UsageTable[str, SampledRate]:
    return UsageTable(lambda: SampledRate(WINDOW), most)


def use(
    kept: UsageTable[str, SampledRate], key: str, user: str, now_ms: int = 0, limit: float = LIMIT
) -> SampledRate:
    rate = kept.of(key, user, limit, now_ms)
    rate.record(1, now_ms)
    return rate


def test_what_counts_is_kept_and_newcomers_share_one_use() -> None:
    kept = rates()
    first = [use(kept, f"{number}", f"user {number}") for number in range(MOST)]
    newcomers = [use(kept, f"new {number}", f"new {number}") for number in range(100)]
    assert all(newcomer is newcomers[0] for newcomer in newcomers)
    assert not newcomers[0].is_kept
    assert [kept.of(f"{number}", "", LIMIT, 0) for number in range(MOST)] == first
    assert all(rate.is_kept for rate in first)


def test_newcomers_with_other_limits_share_another_use() -> None:
    kept = rates()
    for number in range(MOST):
        use(kept, f"{number}", f"user {number}")
    modest = use(kept, "modest", "modest", limit=1.0)
    lavish = [use(kept, f"lavish {number}", f"lavish {number}", limit=1e6) for number in range(100)]
    assert all(each is lavish[0] for each in lavish)
    assert modest.per_second(0) == lavish[0].per_second(0) / 100


def test_limits_that_have_a_shared_use_are_bounded_and_those_make_way_that_no_longer_count() -> None:
    kept = rates(most=0)
    own = [use(kept, "one", "one", limit=float(number)) for number in range(LIMITS_MAX)]
    others = {id(use(kept, "one", "one", limit=float(LIMITS_MAX + number))) for number in range(10)}
    assert len(others) == 1
    assert others.isdisjoint(map(id, own))
    later_ms = WINDOW.milliseconds
    assert id(use(kept, "one", "one", later_ms, limit=2.0 * LIMITS_MAX)) not in others


def test_what_no_longer_counts_makes_way() -> None:
    kept = rates()
    first = [use(kept, f"{number}", f"user {number}") for number in range(MOST)]
    later_ms = WINDOW.samples * WINDOW.sample_ms
    newcomer = use(kept, "new", "new", later_ms)
    assert newcomer.is_kept
    assert len(kept) == MOST + 1 - LOOKED_AT_MAX
    assert sum(rate.is_kept for rate in first) == MOST - LOOKED_AT_MAX


def test_one_user_leaves_room_for_others() -> None:
    kept = rates()
    for number in range(100):
        use(kept, f"eve's {number}", "eve")
    assert len(kept) == MOST // 2
    assert use(kept, "bob's", "bob").is_kept


def test_a_user_whose_part_is_full_has_room_again_when_its_uses_are_over() -> None:
    kept = rates()
    for number in range(MOST):
        use(kept, f"{number}", "eve")
    assert use(kept, "new", "eve", WINDOW.samples * WINDOW.sample_ms).is_kept


def test_nothing_that_counts_is_forgotten_whatever_comes() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    drawn, kept, now_ms = random.Random(seed), rates(), 0
    last_used: dict[str, tuple[SampledRate, int]] = {}
    for _ in range(5_000):
        now_ms += drawn.choice([0, 1, 100, 500])
        key = f"{int(drawn.paretovariate(0.7)) % 500}"
        rate = kept.of(key, drawn.choice("abc"), LIMIT, now_ms)
        if key in last_used:
            known, used_ms = last_used[key]
            assert rate is known or now_ms - used_ms >= WINDOW.samples * WINDOW.sample_ms
        if rate.is_kept and drawn.random() < 0.7:
            rate.record(1, now_ms)
            last_used[key] = (rate, now_ms)
        assert len(kept) <= MOST


def test_a_bucket_is_over_when_its_debt_is_paid_and_it_is_full() -> None:
    bucket = TokenBucket(WINDOW)
    assert bucket.is_over(0)
    bucket.record(22 + 2, 2, 0)
    assert not bucket.is_over(11_000)
    assert bucket.is_over(12_000)
