"""When and what of a log is fsynced, and what a disk's errors mean for it."""
