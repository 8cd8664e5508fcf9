"""Reinforcement learning with the demo model, from tokens to tokens."""
