"""Users of SCRAM: their passwords, and their credentials in a cluster."""
