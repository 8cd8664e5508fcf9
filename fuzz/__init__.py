"""Coverage-guided fuzzing: ``make fuzz SECONDS=60``; see `fuzz.run`."""
