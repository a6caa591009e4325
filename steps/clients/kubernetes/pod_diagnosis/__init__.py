"""Why a pod is not ready, and the one thing to do about it."""
