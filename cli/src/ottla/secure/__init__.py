"""A private authority and the certificates of a cluster's processes: made, renewed, and shown."""
