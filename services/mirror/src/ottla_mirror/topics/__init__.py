"""Which topics a flow has: found at the source, made and extended at the target, their settings kept alike."""
