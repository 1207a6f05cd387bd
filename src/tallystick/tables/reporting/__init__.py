"""Reports on a private table and on what is published of it: what limits left out, what was done to each column."""
