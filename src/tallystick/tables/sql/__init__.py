"""SQL text to a plan of ``tallystick.tables``: what is read is a closed list, and anything else is refused by name."""
