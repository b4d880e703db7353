"""The rules of the leaderboards, and the files of submissions."""
