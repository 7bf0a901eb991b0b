"""Ready panels: each picture of the course with the controls that suit it, sorted by topic.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""
