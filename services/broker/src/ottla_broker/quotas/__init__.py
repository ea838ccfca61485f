"""Quotas of clients: what they use (`sampled_rate.py`), what they may (`quota_limits.py`), and their throttling."""
