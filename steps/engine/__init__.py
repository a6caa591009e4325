"""Plan, apply, refresh, destroy: written once for every kind of resource. Knows no step by name."""
