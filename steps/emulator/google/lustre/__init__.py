"""Managed Lustre."""
