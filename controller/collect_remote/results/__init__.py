"""Results here: the `store` of verified ones, what is still `growing`, a `profile` and each `member` of its archive."""
