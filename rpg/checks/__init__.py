"""What must hold before Ray starts; each check is a function, listed and called in preflight.py."""
