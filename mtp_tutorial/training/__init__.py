"""How the guessers are made: text the target says itself, losses, the training loop.

Takes: a target and prompts.  Returns: texts, and later trained drafters.
Must not know: verify rules, the lab, pictures.
"""
