"""A service for teams: people ask without holding data, ledger or keys. It runs on Linux.

``keeper.py`` is the process that writes the ledger; ``worker.py`` reads the rows of one job, ``planner.py`` reads
statements, and ``template.py`` forks both. ``protocol.py`` is what other processes ask of the keeper.
"""
