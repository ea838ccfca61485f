"""All logs of a broker, and what recurs for them."""
