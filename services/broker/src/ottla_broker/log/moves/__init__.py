"""Moving logs between the directories of a broker."""
