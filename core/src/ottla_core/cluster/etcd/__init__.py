"""The client of etcd, and leases in it; it knows nothing of what the keys mean."""
