"""Transactions of a cluster, as `ottla transaction` and `ottla doctor` see them."""
