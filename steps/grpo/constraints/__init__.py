"""What NeMo RL and vLLM require of a configuration: one `Constraint` a rule, grouped by topic."""
