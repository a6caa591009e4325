"""Drills: failures that one switches on and off by name."""
