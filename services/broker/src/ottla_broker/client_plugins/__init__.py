"""What says who clients are and what they may do: the broker's own classes and plugins', by the same hooks."""
