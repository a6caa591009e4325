"""Kubernetes objects as plain dicts, a room for each purpose."""
