"""What runs inside the process of a connector or a task."""
