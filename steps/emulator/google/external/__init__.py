"""The two services besides Google's that the wizard uses: Hugging Face and Weights & Biases."""
