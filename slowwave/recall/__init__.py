"""The query module: answers from what is released, with its sources. Small; never imports the pipeline.

Importing it loads no model and no framework: the encoder comes with the first query that needs one.
"""
