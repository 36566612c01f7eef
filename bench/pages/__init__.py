"""How long pages, lists and figures take on a database with millions of deliveries.
`python -m bench.pages --help`, `make pages-bench ROWS=5000000`.

The product delivers some thousand events to receivers that fail in every way, for many tenants and
endpoints. Then it is stopped, and the database is filled with copies of these rows over the last 30
days, with the figures that the product would have counted. All figures are compared with counts of
the rows. At last the API alone runs on that database, and each page is requested many times.
"""
