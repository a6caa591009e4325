"""Step 5, Lustre: the peering, the Managed Lustre instance, its volume and its claim."""
