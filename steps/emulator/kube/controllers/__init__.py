"""Controllers: they compare desired and actual state and change what differs."""
