"""A predicate for Connect: whether a field of the value is above a limit."""
