"""What the workers of a target share: flows that were created, how flows are steered, which topics they have made."""
