"""What is said: messages, their contents, the tools that they declare.

::

    json_field                             JSON data, read with the path of each field
    tool_namespaces → content → messages   a conversation as Python objects and JSON
    header                                 what a message header says
    declared_tools                         the tools of a conversation, by recipient
"""
