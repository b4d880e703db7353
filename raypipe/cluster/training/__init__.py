"""Trainings on Ray: its workers, and what measures their checkpoints meanwhile."""
