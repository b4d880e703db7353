"""Training queries and passages too close to evaluation are left out."""
