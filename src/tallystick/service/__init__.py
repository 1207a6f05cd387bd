"""Serves analysts who hold no data, no ledger and no keys. Linux only."""
