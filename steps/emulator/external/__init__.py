"""The emulated services that are not Google's: Hugging Face and Weights & Biases."""
