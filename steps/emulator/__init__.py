"""The emulator: a local server that stands in for Google Cloud, Kubernetes, Hugging Face and W&B."""
