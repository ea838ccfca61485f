"""Cluster state in etcd: the client, leases, election, the key space and the watched snapshot."""
