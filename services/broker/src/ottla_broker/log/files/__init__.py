"""The small files of a log and of its directory, and what a disk refuses."""
