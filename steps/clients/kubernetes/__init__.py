"""Client and drivers of Kubernetes: objects, RayClusters, port-forward, exec."""
