"""What tells the records that a cluster has copied through a link from those that were written to it afterwards."""

from typing import Final

PROMOTION_LEAP: Final = 1 << 16
"""By so much a partition's leader epoch grows when it is promoted, and by nothing else at once.

The source may hold elections after it was given up: it would take as many of them for its epochs to reach those that
are used here. A partition can be promoted thirty thousand times before its epochs run out.
"""
