"""The long-running process of `hookfast up`, which starts the parts, keeps them running and stops
them.

It runs for months beside the parts and does nearly nothing, so it imports only the standard library
and structlog: 30 MiB, where the settings, the database and Temporal's client took 134. The command
does what needs those before, or runs it in a process that ends (`hookfast.cli.before_up`).
"""
