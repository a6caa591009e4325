"""What checks and pickers read from the cloud; every query is sent once and shared."""
