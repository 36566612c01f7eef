"""The settings of endpoints, sources and subscriptions, each declared once: what the API accepts
and says about it, and how both sites show it. API, pages and command line are made of this."""
