"""Topics that follow another cluster."""
