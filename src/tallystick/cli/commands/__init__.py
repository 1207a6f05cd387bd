"""One file per command (``read`` holds the two plain read-outs). Each reads options, calls the library, answers."""
