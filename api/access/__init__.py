"""Who may do what: authentication, ownership, quotas, and the audit and access logs."""
