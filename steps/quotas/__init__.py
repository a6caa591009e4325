"""Step 2, Quotas and reservation: which machines, how many, and which capacity they come from."""
