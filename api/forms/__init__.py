"""The bodies and query parameters that the API accepts, and the views that it answers with."""
