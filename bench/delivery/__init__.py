"""The product measured against the floor, in one run on one machine: `make bench`.

Each part is a module that describes what it measures: `rates` (the floor, then batches, single
events and a fan-out, in turns), `latency`, `burst`, `fairness`, `black_hole`, `memory`. Each mode
of `HOOKFAST_FIRST_ATTEMPTS` and each database has its own `hookfast up` (`session`); `receivers`
needs none. `plan` decides which parts run where, `report` prints the results, and `aims` compares
them with the aims.
"""
