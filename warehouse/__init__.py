"""WHAT analysts and finance read: tables, database, views, workbooks. Imports nothing of ours.

Importing it tells the numpy below pyarrow to start no threads of its own: nothing of ours
multiplies matrices, and each of them spins for a while before it sleeps.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
