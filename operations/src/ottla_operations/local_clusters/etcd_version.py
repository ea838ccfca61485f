"""The release of etcd from which on its watches lose nothing around compaction. Pure."""

RECOMMENDED_VERSION = (3, 5, 16)
