"""Clients and drivers of Google Cloud's services."""
