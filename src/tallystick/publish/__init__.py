"""Joins the rooms: registered datasets, and jobs that are paid for and written. Prints nothing."""
