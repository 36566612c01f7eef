"""The settings of the service, read from environment variables and secret files."""
