"""The command groups of `ottla`, one file each."""
