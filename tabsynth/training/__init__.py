"""Private training of networks: sampling, clipping, noise, the loop and checkpoints."""
