"""Messages, their contents, and the tools that they declare.

::

    json_field                             JSON values with their path, for errors about requests
    tool_namespaces → content → messages   a conversation as Python objects and as JSON
"""
