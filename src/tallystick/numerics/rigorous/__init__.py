"""Read-outs recomputed in ball arithmetic (python-flint): slow, and certain to the last bit."""
