"""Finds resources by their ids, keys and names."""
