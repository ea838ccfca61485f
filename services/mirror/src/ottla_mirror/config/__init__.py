"""What a mirror worker is told: MirrorMaker 2's properties and a few of our own. Read, checked, resolved."""
