"""Document 004, chapter 4: membership attacks on private linear models, figure by figure."""
