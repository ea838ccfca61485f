"""Protocol definitions (`*.proto`) and the stubs generated from them (`gen`)."""
