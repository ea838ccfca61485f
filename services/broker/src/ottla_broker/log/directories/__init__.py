"""Log directories, the logs in them, and what they tell of a stopped broker."""
