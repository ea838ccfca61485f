"""Copies with each record exactly once: records are written in transactions, together with the position."""
