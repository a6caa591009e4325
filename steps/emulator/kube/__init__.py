"""The emulated Kubernetes clusters: API server, controllers, nodes, streams."""
