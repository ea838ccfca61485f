"""REST APIs of Connect workers and mirror workers."""
