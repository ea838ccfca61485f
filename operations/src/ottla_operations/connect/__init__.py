"""What Connect workers tell."""
