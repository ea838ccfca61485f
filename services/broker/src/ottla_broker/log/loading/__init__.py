"""Opening a log, and mending it after a crash."""
