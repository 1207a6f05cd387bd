"""One file per command (``read`` holds epsilon and delta). Each reads options, calls the library, answers."""
