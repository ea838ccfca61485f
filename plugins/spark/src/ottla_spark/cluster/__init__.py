"""What a job needs on the machines of a Spark cluster."""
