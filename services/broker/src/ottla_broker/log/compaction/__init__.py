"""What a round of compaction cleans in one log, and how."""
