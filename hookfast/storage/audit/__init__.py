"""The audit log: its statements, and the columns of each table that its entries show."""
