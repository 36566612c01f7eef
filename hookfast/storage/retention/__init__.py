"""Deletes old rows and partitions."""
