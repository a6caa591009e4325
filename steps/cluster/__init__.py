"""Step 4, Cluster: the GKE cluster, its node pools, NCCL and the device networks."""
