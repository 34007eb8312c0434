"""A page in the browser to settle doubtful labels: ``fuzzytwin studio``. Needs the extra studio.

`session.py` holds the labels and the model in plain Python, `journal.py` keeps every decision on
disk, the views draw them, `server.py` serves the page to this computer alone.
"""
