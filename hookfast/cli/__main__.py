"""`python -m hookfast.cli`, which is how `up` starts the API and the worker."""

from hookfast.cli import main

main()
