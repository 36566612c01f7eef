"""What receivers get, for the section `webhooks` of the OpenAPI document: the requests that
Hookfast sends, and what their answers mean. A test compares it with real deliveries."""
