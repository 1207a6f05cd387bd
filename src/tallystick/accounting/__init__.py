"""States privacy facts: losses, dominating pairs, composition, sampling, conversions. No I/O, no noise."""
