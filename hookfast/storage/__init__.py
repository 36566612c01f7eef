"""The record: tables, migrations, and every SQL statement, one module per table."""
