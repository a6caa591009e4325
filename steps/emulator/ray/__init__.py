"""Real Ray heads on this machine, one for each head pod that is connected to."""
