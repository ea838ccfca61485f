"""Rebuilding a cluster's state in etcd: from what brokers have on their disks, or from a backup."""
