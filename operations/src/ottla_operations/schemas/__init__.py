"""Records by the schemas of a registry."""
