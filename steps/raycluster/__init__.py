"""Step 6, RayCluster: the tokens, the head, the GPU workers, and access to them."""
