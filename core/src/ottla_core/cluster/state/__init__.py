"""The model of a cluster's state, its keys and values in etcd, and how it advances; no client of etcd in sight."""
