"""Where to begin again when the target has lost what it had."""

from ottla_mirror.copy.beginning import source_offset_of
from ottla_mirror.offsets.offset_map import OffsetMap


def test_the_first_record_that_the_target_lacks_is_found():
    offset_map = OffsetMap(10, 0)
    offset_map.append(10, 0, 5)
    offset_map.append(20, 7, 5)
    offset_map.skip_to(30)
    assert source_offset_of(offset_map, 0) == 10
    assert source_offset_of(offset_map, 3) == 13
    assert source_offset_of(offset_map, 5) == 20
    assert source_offset_of(offset_map, 9) == 22
    assert source_offset_of(offset_map, 12) == 30
