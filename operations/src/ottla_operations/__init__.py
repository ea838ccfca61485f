"""What the `ottla` command and the console both do with clusters: asking, judging, planning, changing."""
