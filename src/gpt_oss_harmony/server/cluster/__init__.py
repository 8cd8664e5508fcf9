"""Several servers of one database, and several processes of one server.

::

    peers    requests from one server to another, and what carries them
    hub      the process with the engine, and its workers
"""
