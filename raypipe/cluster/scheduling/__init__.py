"""Which worker computes which shard, and when a second one tries it too."""
