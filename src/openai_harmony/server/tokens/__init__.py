"""Requests to the tokens that the model reads, and tokens to messages, without sampling."""
