"""One file per mechanism. A new mechanism is a new file here; no accountant is edited."""
