"""Kubernetes objects as plain dicts, one module per purpose."""
