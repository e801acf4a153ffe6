"""A run's settings, all of it: names, types and ranges, rules."""
