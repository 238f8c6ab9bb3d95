"""Letters that no secret has (5.2.6): settings ask for them too, without an HTTP client."""

UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of letters that nobody sees: what is pasted beside a secret is not taken for it."""
