"""A run's life: start.py calls the other modules in order."""
