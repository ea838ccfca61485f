"""What `ottla mirror` does: comparing two clusters, and asking mirror workers and links."""
