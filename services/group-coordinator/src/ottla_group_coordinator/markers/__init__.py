"""How transactions end: their markers, from the shard that has decided to the partitions' leaders and back."""
