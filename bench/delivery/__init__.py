"""The product measured against the floor, in one run on one machine: `make bench`.

Parts, each a module that says what it measures and how: `rates` (the floor, then batches, single
events and a fan-out, in turns), `latency`, `burst`, `fairness`, `black_hole`, `memory`. Each mode
of `HOOKFAST_FIRST_ATTEMPTS` and each database has a `hookfast up` of its own (`session`). `plan`
says which parts run where, `report` prints what they found, `aims` compares it with the aims.
"""
