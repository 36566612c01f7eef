"""The routes, one module per resource. Each route authorises, calls storage, and answers."""
