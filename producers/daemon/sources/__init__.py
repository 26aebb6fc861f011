"""Where the program takes ratings from, line by line.

source        what a source is to the program; lines, and their ratings; standard input
watched_file  a file that other programs write

No module holds a rating beyond its line, and none knows what is reported, or when.
"""
