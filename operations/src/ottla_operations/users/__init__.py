"""Users of SCRAM: their credentials in a cluster."""
