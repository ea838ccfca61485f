"""Records as lines of text: what `ottla produce` reads and `ottla consume` writes."""
