"""A process's view of the cluster's state: it follows etcd, and says how fresh it is."""
