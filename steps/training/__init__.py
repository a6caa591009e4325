"""What a NeMo RL run says: pure functions over text and numbers."""
