"""The record in SQLite or PostgreSQL: the tables, the migrations, and every SQL statement."""
