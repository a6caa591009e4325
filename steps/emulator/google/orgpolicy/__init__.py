"""Organization Policy."""
