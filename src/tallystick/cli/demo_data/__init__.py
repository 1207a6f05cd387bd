"""The demo's dataset: 10,000 people who do not exist, made by ``make_visits.py``."""
