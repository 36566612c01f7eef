"""The mail to the owners of endpoints: notices, and the digests that collect them."""
