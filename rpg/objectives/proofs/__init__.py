"""Every loss against the exact gradient of its objective, by enumeration; `rpg verify` prints the tables."""
