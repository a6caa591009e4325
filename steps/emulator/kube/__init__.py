"""The Kubernetes interface of the rehearsal, and what lives behind it."""
