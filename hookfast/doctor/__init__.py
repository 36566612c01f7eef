"""Checks an installation and says what to do: the code of `hookfast doctor`.

`examination` runs the checks, one module each; `finding` is their result. They change nothing:
they create no database and no key file, and send no mail.
"""
