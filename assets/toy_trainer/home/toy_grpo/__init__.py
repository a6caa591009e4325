"""A small, real GRPO implementation with NeMo RL v0.5.0's output, for rehearsals.

All printed numbers are computed.
"""
