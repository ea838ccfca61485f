"""Where passwords of users come from."""
