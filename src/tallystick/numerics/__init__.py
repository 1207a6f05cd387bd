"""Number crunching that knows nothing of privacy: laws, grids, tilted powers, contour sums, root search."""
