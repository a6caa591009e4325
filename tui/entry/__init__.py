"""grpo-wizard: from an empty Google Cloud project to a GRPO run that is provably learning."""

__version__ = "0.1.0"
