"""Honest and broken algorithms, with their truth: test subjects for audits."""
