"""Step 3, Networks: the VPC networks, subnets and firewall rules."""
