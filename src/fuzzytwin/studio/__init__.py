"""A page in the browser to review labels: ``fuzzytwin studio``. Needs the extra studio.

`_session.py` holds the labels and what the models predict, in plain Python. `_history.py` and
`_journal.py` keep every decision on disk, the views show them with NiceGUI's components, and
`_server.py` serves the page to this computer only.
"""
