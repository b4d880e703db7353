"""Stages that turn files into passages, ids, queries and word pieces."""
