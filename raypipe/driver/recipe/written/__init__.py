"""Inputs that raypipe itself writes as files: those of python-docs, and topics of TREC CAR."""
