"""Where a cluster's replicas and leaders are, and moving them: what `ottla cluster` is made of."""
