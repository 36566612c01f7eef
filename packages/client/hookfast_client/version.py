"""The version of this package, which is that of the Hookfast it was made for."""

VERSION = "0.1.0"
