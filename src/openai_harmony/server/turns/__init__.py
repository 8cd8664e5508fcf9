"""One turn of the model, the same for every API: a request in, neutral events out.

::

    constraint → preparation          a request to prompt tokens and sampling with a grammar
    events, stop_texts → body → reader  sampled tokens to events, by the recovering parser
    tally → engine_place              a place at the engine, counted
    sampled_turn                      all of it; seeds and merged, for several at once
"""
