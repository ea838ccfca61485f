"""`ottla sql`: topics as tables, at a prompt."""
