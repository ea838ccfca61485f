"""What pages show, worked out of what clusters tell. Pure."""
