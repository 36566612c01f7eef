"""Examines an installation and says what to do: what `hookfast doctor` runs.

`examination` runs the checks, one module each; `finding` is what they give. They change nothing:
they make no database, no key file and no mail.
"""
