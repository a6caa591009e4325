"""Real Ray heads on this machine, one for each head pod that receives a connection."""
