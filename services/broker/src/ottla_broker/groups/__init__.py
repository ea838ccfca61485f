"""The broker's side of consumer groups: requests go on to the coordinators, whose shards' logs are kept here."""
