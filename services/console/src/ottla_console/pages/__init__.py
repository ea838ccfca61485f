"""One file for each view: its addresses, and what answers there."""
