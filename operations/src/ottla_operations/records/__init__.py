"""Records as lines of text, and back."""
