"""Google Cloud's naming and numbering rules as pure functions: names, regions, CIDR ranges, reservations, quotas."""
