"""One turn of the model, the same for every API: a request in, events out.

::

    preparation              a request to prompt tokens and sampling settings, with a grammar
    admission                who may sample now, who waits, who is refused
    sampling                 a prepared turn at the engine, with its metrics; several at once
    reader, stop_texts       sampled tokens to events, by the recovering parser
    events                   what happens while the model writes
"""
