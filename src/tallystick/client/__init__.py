"""Asking a service from Python, without its data: the standard library, and no engine."""
