"""What is remembered between two runs."""
