"""The report of runs as one page: a tree of sections, tables, charts and sentences, written as HTML, Markdown and LaTeX."""
