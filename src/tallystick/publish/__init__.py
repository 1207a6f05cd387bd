"""Joins the rooms: registered data sets, and jobs that are priced, paid for and written. Prints nothing."""
