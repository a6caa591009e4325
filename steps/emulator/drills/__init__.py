"""Drills: simulated failures that can be switched on and off by name."""
