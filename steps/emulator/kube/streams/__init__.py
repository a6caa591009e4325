"""Logs, exec and port-forward of a pod."""
