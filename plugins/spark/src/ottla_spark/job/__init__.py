"""A Spark driver as the task of a connector: from settings to a plan, from a plan to running queries."""
