"""The stage that computes some of a model's scores again in fp32."""
