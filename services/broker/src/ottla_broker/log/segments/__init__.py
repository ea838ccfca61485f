"""Segments, the files of which they consist, and their indexes."""
