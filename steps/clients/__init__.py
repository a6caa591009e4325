"""How the outside is talked to. SDKs are imported inside functions here and nowhere else."""
