"""Where a plan's integers are computed. An engine is a file; ``base`` says what one must do."""
