"""The two services beside Google's that the wizard asks: Hugging Face and Weights & Biases."""
