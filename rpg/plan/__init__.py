"""Estimates of memory, disk and time, from a model's shape and the run's settings."""
