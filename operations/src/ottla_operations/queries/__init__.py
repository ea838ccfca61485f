"""SQL over records that were read: in a process of its own that can reach nothing else."""
