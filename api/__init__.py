"""The HTTP API: one module per resource under `api.routes`, problem+json errors (RFC 9457)."""
