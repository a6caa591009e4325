"""Cloud Quotas."""
