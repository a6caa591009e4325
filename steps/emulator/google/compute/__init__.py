"""Compute Engine."""
