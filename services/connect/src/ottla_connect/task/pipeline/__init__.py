"""What records go through between a topic and a plugin: converters, transforms, the rules for errors."""
