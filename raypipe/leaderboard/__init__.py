"""The rules of the boards, and the files they take."""
