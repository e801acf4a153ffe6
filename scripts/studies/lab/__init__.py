"""Exact off-policy experiments: a problem whose J and KLs are finite sums, trained for many seeds at once."""
