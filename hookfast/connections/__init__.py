"""The connections of our HTTP servers: how many there are, what each has to do in time, and which
are closed."""
