"""What answers the requests about transactions, one file per API."""
