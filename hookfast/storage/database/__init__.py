"""Connections and transactions on both databases, migrations, partitions, and parts of SQL."""
