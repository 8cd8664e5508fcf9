"""The Responses API.

::

    request, input     the body of a request, and the items that it and the history have
    resource           the response that repeats the request's settings
    output_items       the items of an answer, as JSON
    writer, fold       the events of an answer, and the response that they describe
"""
