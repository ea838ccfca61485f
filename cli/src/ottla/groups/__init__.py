"""Consumer groups as the command line sees them: what a cluster tells of them, new offsets, and reading in one."""
