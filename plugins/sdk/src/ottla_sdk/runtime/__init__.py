"""For services that run plugins: finding their classes, resolving references to secrets, hiding these."""
