"""The rules of one replica: a leader's view of its followers, and a log that becomes its leader's. Pure."""
