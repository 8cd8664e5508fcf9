"""One turn of the model, the same for every API: a request in, events out.

::

    preparation              a request to prompt tokens and sampling settings, with a grammar
    sampling                 a prepared turn at the engine, with its metrics; several at once
    reader, stop_texts       sampled tokens to events, with the lenient parser
    events                   the events of a turn
"""
