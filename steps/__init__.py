"""What is done: seven steps, the engine that carries them out, and the clients it speaks through."""
