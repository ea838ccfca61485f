"""What runs the shards of a coordinator, whatever they keep: loading, rounds, the log, the brokers' streams."""
