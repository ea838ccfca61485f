"""Comparing the topics of two clusters, by what readers get and by raw batches."""
