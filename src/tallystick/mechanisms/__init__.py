"""Draws noise: additive noise, selection, response, keys, aggregates, and exact samplers beneath. Remembers nothing.

A package per public module (``noise``, ``select``, ``response``, ``keys``, ``aggregate``); ``base`` says what a
mechanism is, ``inputs`` how data become numbers, ``exact`` holds randomness and everything drawn from it.
"""
