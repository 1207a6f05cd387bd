"""Engines that compute a plan's integers. An engine is a file; ``base`` says what one must do."""
