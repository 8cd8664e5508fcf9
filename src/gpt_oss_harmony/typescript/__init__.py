"""JSON Schemas as the model reads them: TypeScript types.

::

    json_text                                    Python values as JSON, and JSON as text
    comments → references → writer               our dialect
    reference_dialect                            the bytes of openai-harmony 0.0.8
"""
