"""Cloud Billing."""
