"""The OpenAPI document: what it adds to the routes, such as examples, meanings and webhooks."""
