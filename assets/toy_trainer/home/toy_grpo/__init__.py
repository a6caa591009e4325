"""A small, real GRPO that speaks like NeMo RL v0.5.0: the rehearsal's training. Everything it prints was
computed."""
