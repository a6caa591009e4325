"""Nodes and what the kubelet does with the pods on them."""
