"""The most that a benchmark's files may ask of memory and time; each far above what the official releases hold.

A file beyond one of these is refused with the limit and what was found. The largest of the releases are in brackets.
"""

from __future__ import annotations

MB = 2**20

LINE = 8 * MB  # bytes of a JSON record: a line, or a member of a file's object or list (20 kB, a WebQA question)
LINES = 2_000_000  # lines of a file (218,285 passages of MultimodalQA)
UNPACKED = 4096 * MB  # bytes of a text file, unpacked (hundreds of MB: the passages, and WebQA's questions)
WHOLE = 32 * MB  # bytes of a JSON file that is read as a whole (0.5 MB, ScienceQA's pid_splits.json)
ROW = 64 * MB  # characters of a tab-separated row, with its picture in base64 (some MB, MMBench)
SHEET = 16 * MB  # bytes of a spreadsheet, unpacked (0.2 MB, MH's question list)
ROWS = 100_000  # rows of a spreadsheet (238 questions of MH)
COLUMNS = 256  # columns of a spreadsheet (10 of MH's question list)
PICTURE = 256 * MB  # bytes of a picture's file; its pixels are limited by Pillow, to 89 million
LETTERING = 256 * 1024  # characters of one picture's recognised words in ocrs.json (8 kB)
NAME = 255  # bytes of a file's name, as file systems have it
DEPTH = 32  # folders inside each other (2 of MH)
FRAMES = 100_000  # files of one picture (hundreds, of MH's films)
ID = 512  # characters of an id
OFFSETS = 64 * MB  # bytes of imgs.lineidx (5 MB, WebQA)
