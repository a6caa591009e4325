"""Nodes, and what the kubelet does with their pods."""
