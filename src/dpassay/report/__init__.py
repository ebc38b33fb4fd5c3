"""What is shown: figures, pages, JSON, and epsilon as odds. Sees result types and curves only."""
