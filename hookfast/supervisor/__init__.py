"""What stays of `hookfast up` while it runs: the process that starts the parts, keeps them running
and stops them.

It runs for months beside the parts and does nearly nothing, so it imports the standard library and
structlog only (30 MiB where the settings, the database and Temporal's client took 134). What needs
those is done before, by the command, or in a process that ends again (`hookfast.cli.before_up`).
"""
