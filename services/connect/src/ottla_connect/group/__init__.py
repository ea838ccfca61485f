"""The group of workers: who belongs to it, who leads, who runs what."""
