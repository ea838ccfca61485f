"""What a log knows of idempotent producers, and the snapshots of it."""
