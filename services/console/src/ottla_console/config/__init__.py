"""Settings of the console and of the clusters that it shows."""
