"""Theme, icons, and translation."""
