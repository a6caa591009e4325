"""The saved state: deployments, journals, locks, secrets."""
