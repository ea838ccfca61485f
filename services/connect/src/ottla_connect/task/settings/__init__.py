"""What connectors can be told, and whether it is right."""
