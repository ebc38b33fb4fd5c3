"""Speed, as ratios to peers in the same run; nothing here is a test."""
