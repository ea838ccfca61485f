"""How plugin classes are found, described and made."""
