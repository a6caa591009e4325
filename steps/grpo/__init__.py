"""Step 7, GRPO: recipe, parameters, their constraints, memory, and the training job."""
