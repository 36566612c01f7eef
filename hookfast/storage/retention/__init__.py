"""Deletes old rows and partitions, after counting them by day."""
