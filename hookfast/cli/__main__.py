"""`python -m hookfast.cli`, with which `up` starts the API and the workers."""

from hookfast.cli import main

main()
