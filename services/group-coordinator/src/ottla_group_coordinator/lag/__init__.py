"""How far groups are behind: in records, and in time."""
