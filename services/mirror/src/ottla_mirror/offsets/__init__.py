"""Which record of the source is which record of the target, exactly, and where that is kept."""
