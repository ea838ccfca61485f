"""Consumer groups of the source: their offsets at the target, as checkpoints and as offsets of its groups."""
