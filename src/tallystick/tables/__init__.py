"""Asks a table: expressions, caps, plans with a cost before data is read, engines. Prints nothing and sees no seed."""
