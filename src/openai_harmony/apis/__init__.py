"""The Responses and Chat Completions APIs as data: requests to harmony, harmony to answers.

Pure functions: no network, no clock, no identifiers of their own.
"""
