"""Controllers: they compare the desired with the actual state and change what differs."""
