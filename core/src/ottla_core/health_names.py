"""The names under which processes ask each other for their health; imports nothing, as the supervisor asks too."""

BACKGROUND = "ottla.background"
"""What runs in the background; see `background.py`."""

STORAGE = "ottla.storage"
"""Whether no disk refuses what is to be written or read."""

ACCESS_LISTS = "ottla.access-lists"
"""Whether all access control lists in etcd can be read; what those may deny that cannot be read is refused."""

LOGS = "ottla.logs"
"""Whether all logs take records; one whose fsync has failed does not until its broker is restarted."""
