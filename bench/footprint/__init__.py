"""The footprint of a delivery: commits, WAL, bytes on disk and CPU of each database, requests to
Temporal, workflow runs and their histories. `python -m bench.footprint --help`.

Each event has one delivery, which succeeds at once. Events come one request at a time at a fixed
rate, and in requests of a hundred as fast as they are accepted, in both modes of first attempts;
then some fail twice first, for what a retry adds. The floor is a bare workflow with one POST on the
same Temporal. Work at rest is measured first and subtracted.

Bytes on disk are the growth of `pg_total_relation_size`: tables, TOAST and indexes, each time after
a VACUUM, so that space which the next rows reuse does not count. Counts and bytes depend little on
the machine; CPU does, so compare it with the floor of the same run.
"""
