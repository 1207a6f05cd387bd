"""Asks a table: expressions, caps, plans priced before data is read, engines. Prints nothing and never sees a seed."""
