"""The portal: the pages of a platform's customers, opened by a portal link.

They show the webhooks of one tenant, or one endpoint, under the platform's own name, logo and
colour, in a tab of their own or in a frame of the platform's site. Their words are the customer's:
an endpoint works, fails, is on hold or off; there are no tenants, circuits and jobs. Pages are
built like the dashboard's (see `api.dashboard`), with the same parts (`api.site`), and call the
route functions of the API.
"""
