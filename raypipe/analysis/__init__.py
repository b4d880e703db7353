"""How far two ways of scoring agree, for the audit of precisions."""
