"""Workers of a target as a group: who leads, who copies which partitions of the source."""
