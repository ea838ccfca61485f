"""What mirrors copy and what they call it, as Kafka's MirrorMaker 2 decides it. Pure."""
