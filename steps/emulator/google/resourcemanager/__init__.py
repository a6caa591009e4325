"""Cloud Resource Manager and IAM policies."""
