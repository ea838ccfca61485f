"""For brokers: teams that own the topics and groups whose names begin with theirs, and users of one domain."""
