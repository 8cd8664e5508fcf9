"""JSON Schemas as the model reads them: TypeScript types.

::

    json_text → comments → references → writer   our dialect
    json_text → reference                        the bytes of openai-harmony 0.0.8
"""
