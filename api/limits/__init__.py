"""Limits of one API process: request rates, memory for bodies, backlog and receiver checks."""
