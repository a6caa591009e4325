"""Service Networking."""
