"""Figures of the pages, the statistics and the metrics, each at a bounded cost."""
