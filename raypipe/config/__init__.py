"""The recipe: one YAML file as frozen, checked objects. No environment is read here."""
