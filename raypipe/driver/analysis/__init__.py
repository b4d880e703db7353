"""What finished workspaces tell: the analyses of raypipe/analysis over stored runs."""
