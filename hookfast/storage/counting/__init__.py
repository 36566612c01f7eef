"""Counts figures in the transaction of the record, adds them up, and reads them (ADR 54)."""
